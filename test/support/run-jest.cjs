/**
 * Runs Jest in this process, once for each message with its options. A run then needs no start of Node, and
 * loads no Jest. Whatever a test leaves behind ends with this process.
 */
const { runCLI } = require('jest');

process.on('message', async ({ options, environment }) => {
  Object.assign(process.env, environment);
  try {
    await runCLI({ $0: 'jest', ...options }, [process.cwd()]);
  } catch (error) {
    console.error(error);
  }
  for (const name of Object.keys(environment)) delete process.env[name];
  process.send('ended');
});
