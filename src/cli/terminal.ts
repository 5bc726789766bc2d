/**
 * What a command writes for people passes here: texts of servers and of events may hold what a terminal obeys, such as
 * escape sequences that hide lines or write the clipboard. They are shown as \u001b and the like, in JSON too.
 */
import { escapeUnprintable } from '../lib/printable';

const CLEAR_LINE = '\r\x1b[K';

/** Writes of the streams as they were before `guard`. */
const unguarded = new Map<NodeJS.WriteStream, NodeJS.WriteStream['write']>();

/** From now on every text that is written to the stream is escaped, by console too. */
export function guard(stream: NodeJS.WriteStream): void {
  if (unguarded.has(stream)) return;
  const write = stream.write.bind(stream);
  unguarded.set(stream, write);
  stream.write = (chunk: Uint8Array | string, ...rest: unknown[]): boolean =>
    Reflect.apply(write, undefined, [typeof chunk === 'string' ? escapeUnprintable(chunk) : chunk, ...rest]);
}

/** Clears the line that the cursor of a terminal is on: for progress, and the only sequence that is written as it is. */
export function clearLine(stream: NodeJS.WriteStream): void {
  (unguarded.get(stream) ?? stream.write.bind(stream))(CLEAR_LINE);
}
