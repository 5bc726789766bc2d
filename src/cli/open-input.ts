/** Opens a file, a named pipe or standard input for a command. */
import { constants, createReadStream, open } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { addAbortSignal, type Readable } from 'node:stream';
import { promisify } from 'node:util';

const READ_BYTES = 1024 * 1024;

/**
 * Reads a file, or standard input for `-`.
 *
 * @throws on a stop signal, so that half a line is not read as a line
 */
export async function* openInput(file: string, stop: AbortSignal): AsyncGenerator<Buffer> {
  try {
    const stream = await openStream(file);
    for await (const chunk of addAbortSignal(stop, stream)) if (Buffer.isBuffer(chunk)) yield chunk;
  } catch (error) {
    // An error of reading, unlike an error of opening, does not name the file.
    throw error instanceof Error
      ? Object.assign(error, { path: file === '-' ? 'standard input' : file })
      : error;
  }
}

async function openStream(file: string): Promise<Readable> {
  if (file === '-') return process.stdin;
  if (!(await stat(file)).isFIFO()) return createReadStream(file, { highWaterMark: READ_BYTES });
  // A file stream ends after its read does. A read of a named pipe may take for ever, and the signal with it.
  // Outside Linux, a pipe without a writer would read as an empty file: there the open waits for the writer.
  const wait = process.platform === 'linux' ? constants.O_NONBLOCK : 0;
  const fd = await promisify(open)(file, constants.O_RDONLY | wait);
  return new Socket({ fd, readable: true, writable: false });
}
