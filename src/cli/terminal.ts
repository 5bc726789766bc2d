/**
 * Escapes control characters in the output of commands. Texts of servers and of events may hold escape
 * sequences that hide lines of a terminal or write its clipboard. They are shown as \u001b and the like, in
 * JSON too.
 */
import { escapeUnprintable } from '../lib/printable';

const CLEAR_LINE = '\r\x1b[K';

/** The `write` functions of the streams before `escapeControlsOf`. */
const unguarded = new Map<NodeJS.WriteStream, NodeJS.WriteStream['write']>();

/** From now on every text written to the stream is escaped, including the output of `console`. */
export function escapeControlsOf(stream: NodeJS.WriteStream): void {
  if (unguarded.has(stream)) return;
  const write = stream.write.bind(stream);
  unguarded.set(stream, write);
  stream.write = (chunk: Uint8Array | string, ...rest: unknown[]): boolean =>
    Reflect.apply(write, undefined, [typeof chunk === 'string' ? escapeUnprintable(chunk) : chunk, ...rest]);
}

/** Clears the terminal's current line, to show progress. No other escape sequence is written unescaped. */
export function clearLine(stream: NodeJS.WriteStream): void {
  (unguarded.get(stream) ?? stream.write.bind(stream))(CLEAR_LINE);
}
