/** The table of the points that a sweep struck. */
import type { Point } from '../support/taps';
import type { Strike } from './sweep';

/** A row of the table that a sweep prints. */
export interface Swept {
  readonly conversation: string;
  readonly point: Point;
  readonly strike: Strike;
  /** Time from the strike to the commit of the offset, for the partitions that were struck there. */
  readonly resumedMs: number;
  /**
   * Number of a batch's records that were read again: all of them where the transaction had been committed.
   */
  readonly readAgain: number;
}

const SHOWN_CHARACTERS = 70;

/** The table of a sweep, in the order of the conversations. */
export function tableOf(swept: readonly Swept[]): string {
  const head = ['strike', 'conversation', 'at', 'message', 'resumed after', 'read again'];
  const rows = swept.map(({ conversation, point, strike, resumedMs, readAgain }) => [
    strike,
    conversation,
    point.direction === 'request' ? 'before' : 'answer to',
    `${point.index} ${point.what.slice(0, SHOWN_CHARACTERS)}`,
    `${(resumedMs / 1000).toFixed(1)} s`,
    String(readAgain),
  ]);
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const lines = all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
