/**
 * Loaded into a command before its program (NODE_OPTIONS=--require). It records the largest number of bytes
 * of standard output and standard error that waited in the process for their readers. At the exit it writes
 * this number to the file that WAITING_OUTPUT names.
 */
const { writeFileSync } = require('node:fs');

let most = 0;
for (const stream of [process.stdout, process.stderr]) {
  const write = stream.write.bind(stream);
  stream.write = (...given) => {
    const result = write(...given);
    most = Math.max(most, stream.writableLength);
    return result;
  };
}
process.on('exit', () => writeFileSync(process.env.WAITING_OUTPUT, String(most)));
