/** The progress of a command that reads a file. */
import { statSync } from 'node:fs';
import { clearLine } from './terminal';

const TERMINAL_PROGRESS_MS = 250;
const LOG_PROGRESS_MS = 5_000;
const BAR_WIDTH = 24;

/**
 * Shows progress on standard error: a bar on a terminal, otherwise a line from time to time.
 *
 * @param summary what was done so far
 */
export function makeProgress(file: string, summary: () => string) {
  const stderr = process.stderr;
  const isTerminal = stderr.isTTY;
  const size = file === '-' ? undefined : regularSize(file);
  let readBytes = 0;
  const clear = () => {
    if (isTerminal) clearLine(stderr);
  };
  const show = () => {
    const share = size ? Math.min(1, readBytes / size) : undefined;
    if (!isTerminal) {
      stderr.write(`${file}: ${summary()}${share === undefined ? '' : `, ${percent(share)} read`}\n`);
      return;
    }
    clear();
    const bar =
      share === undefined
        ? ''
        : `[${'#'.repeat(Math.round(share * BAR_WIDTH)).padEnd(BAR_WIDTH)}] ${percent(share)}  `;
    stderr.write(`${bar}${summary()}`.slice(0, Math.max(20, (stderr.columns ?? 80) - 1)));
  };
  const timer = setInterval(show, isTerminal ? TERMINAL_PROGRESS_MS : LOG_PROGRESS_MS);
  return {
    /** Passes the chunks of the file on, and counts them. */
    async *counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        readBytes += chunk.length;
        yield chunk;
      }
    },
    /** Writes a line of its own, which begins with the name of the file. */
    report(text: string): void {
      clear();
      stderr.write(`${file}${text}\n`);
    },
    close(): void {
      clearInterval(timer);
      clear();
    },
  };
}

function percent(share: number): string {
  return `${Math.floor(share * 100)} %`;
}

/** The size of a regular file. Undefined for a pipe, whose size does not predict its content. */
function regularSize(file: string): number | undefined {
  const status = statSync(file);
  return status.isFile() ? status.size : undefined;
}
