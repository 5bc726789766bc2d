/** The reports of `publish`: warnings and errors as they occur, progress in between, and the result. */
import { DONE, FAILED } from '../../cli/exit-codes';
import { explainShortly } from '../../cli/explain-error';
import { makeProgress } from '../../cli/progress';
import { messageOf } from '../../lib/errors';
import { grouped } from '../../lib/printable';

const WARNINGS_SHOWN = 10;
const RANGES_SHOWN = 20;

export interface Outgoing {
  readonly number: number;
  readonly key: string | null;
  readonly bytes: Buffer;
}

export function bytesOf(lines: readonly Outgoing[]): number {
  return lines.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

export type PublishReport = ReturnType<typeof makeReport>;

/** Counts lines. Warnings, errors and progress are written to stderr, and the result to stdout. */
export function makeReport(file: string) {
  const started = performance.now();
  let sent = 0;
  let sentBytes = 0;
  let refused = 0;
  let warnings = 0;
  let failed = false;

  const seconds = () => (performance.now() - started) / 1000;
  const figures = () =>
    `${grouped(sent)} ${sent === 1 ? 'event' : 'events'}, ${grouped(sent / seconds())}/s, ${(sentBytes / 1e6).toFixed(1)} MB`;
  const progress = makeProgress(file, figures);
  const write = progress.report;

  return {
    counted: progress.counted,
    warn(line: number, problem: string): void {
      if (++warnings <= WARNINGS_SHOWN) write(`:${line}: warning: ${problem}`);
    },
    sent(batch: readonly Outgoing[]): void {
      sent += batch.length;
      sentBytes += bytesOf(batch);
    },
    refused(
      { number: line, bytes }: { readonly number: number; readonly bytes?: Buffer },
      why: string,
    ): void {
      refused++;
      write(`:${line}: not delivered${bytes ? ` (${grouped(bytes.length)} bytes)` : ''}: ${why}`);
    },
    stopped(batch: readonly Outgoing[], error: unknown): void {
      failed = true;
      const why = explainShortly(error);
      write(`: not delivered: lines ${ranges(batch.map((line) => line.number))}: ${why}`);
    },
    unreadable(error: unknown): void {
      failed = true;
      write(`: cannot be read to its end: ${messageOf(error)}`);
    },
    close: progress.close,
    /** @returns the exit code */
    summary(topic: string, nextLine: number, interrupted: boolean): number {
      const notes = [
        ...(warnings > 0
          ? [`${grouped(warnings)} ${warnings === 1 ? 'is no JSON object' : 'are no JSON objects'}`]
          : []),
        ...(refused > 0 ? [`${grouped(refused)} not delivered`] : []),
      ];
      console.log(`sent to ${topic}: ${[figures(), ...notes].join('; ')}`);
      if (failed || interrupted) {
        console.error(
          `${file}: ${failed ? 'stopped' : 'interrupted'}. Continue from line ${nextLine}: all lines before it are done. ` +
            'Events that are sent twice are duplicates to the intake.',
        );
      }
      return failed || refused > 0 || warnings > 0 || interrupted ? FAILED : DONE;
    },
  };
}

/** "3-7, 9" */
function ranges(ascending: readonly number[]): string {
  const found: [number, number][] = [];
  for (const line of ascending) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === line - 1) last[1] = line;
    else found.push([line, line]);
  }
  const shown = found.slice(0, RANGES_SHOWN).map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`));
  const more = found.slice(RANGES_SHOWN).reduce((sum, [from, to]) => sum + to - from + 1, 0);
  return shown.join(', ') + (more > 0 ? ` and ${grouped(more)} more` : '');
}
