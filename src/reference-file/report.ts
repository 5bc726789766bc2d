/** The faults of a file: their places, and their wording. */
import { quoted } from '../lib/printable';

/** A fault of a file, for the person who has to correct it. */
export interface FileFault {
  /** Counted from 1, as editors do; a column counts UTF-16 units. */
  readonly line: number;
  readonly column: number;
  /** The node in the file, as in `operators[0].brands[1].min_bet.EUR`; "" is the whole file. */
  readonly path: string;
  readonly message: string;
  readonly remedy: string;
}

/** Prints a fault as a line that editors can jump from: file, line, column, then the fault and its remedy. */
export function describeFileFault(file: string, { line, column, path, message, remedy }: FileFault): string {
  return `${file}:${line}:${column}: ${path === '' ? '' : `${path}: `}${message} ${remedy}`;
}

/** A node of the file: its offset in the text, and its path. */
export interface FilePlace {
  readonly at: number;
  readonly path: string;
}

/** The place of a fault that concerns the whole file. */
export const WHOLE_FILE: FilePlace = { at: 0, path: '' };

/** Collects faults by offset, and returns them in the order of the text. */
export class FaultReport {
  private readonly found: FileFault[] = [];
  private readonly lineStarts: number[] = [0];

  constructor(text: string) {
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) {
      this.lineStarts.push(end + 1);
    }
  }

  add({ at, path }: FilePlace, message: string, remedy: string): void {
    const line = this.lineOf(at);
    this.found.push({ line, column: at - (this.lineStarts[line - 1] ?? 0) + 1, path, message, remedy });
  }

  lineOf(at: number): number {
    let low = 0;
    let high = this.lineStarts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((this.lineStarts[middle] ?? 0) <= at) low = middle;
      else high = middle;
    }
    return low + 1;
  }

  isEmpty(): boolean {
    return this.found.length === 0;
  }

  /** The first fault, and how many more there are: for data that no person edits. */
  summary(): string {
    const [first, ...others] = this.inOrder();
    const more = others.length > 0 ? ` (and ${others.length} more faults)` : '';
    return `${first?.path}: ${first?.message}${more}`;
  }

  /**
   * Returns every fault once. A parser that recovers may report the same fault at one place several times.
   */
  inOrder(): FileFault[] {
    const distinct = new Map(
      this.found.map((fault) => [
        JSON.stringify([fault.line, fault.column, fault.path, fault.message]),
        fault,
      ]),
    );
    return [...distinct.values()].sort((a, b) => a.line - b.line || a.column - b.column);
  }
}

/** The path of a node's child. A key is quoted where it is too long, or would be ambiguous after a dot. */
export function childPath(path: string, key: string | number): string {
  if (typeof key === 'number') return `${path}[${key}]`;
  if (!/^[A-Za-z_][\w-]{0,63}$/.test(key)) return `${path}[${quoted(key)}]`;
  return path === '' ? key : `${path}.${key}`;
}
