/**
 * Loaded into a command before its program (NODE_OPTIONS=--require). It records the largest number of bytes
 * of standard output and standard error that waited in the process for their readers. At the exit it writes
 * this number to the file that WAITING_OUTPUT names. The file with `.waits` behind this name appears once the
 * program has to wait for a reader.
 */
const { writeFileSync } = require('node:fs');

let most = 0;
for (const stream of [process.stdout, process.stderr]) {
  const write = stream.write.bind(stream);
  stream.write = (...given) => {
    const result = write(...given);
    most = Math.max(most, stream.writableLength);
    if (!result) writeFileSync(`${process.env.WAITING_OUTPUT}.waits`, '');
    return result;
  };
}
process.on('exit', () => writeFileSync(process.env.WAITING_OUTPUT, String(most)));
