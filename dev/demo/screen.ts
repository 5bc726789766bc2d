/** The output of the demo. In a terminal a step replaces its own line. Elsewhere the output is plain text. */

export interface Screen {
  /** Prints a line of the form `name  text`. */
  step(name: string, text: string): void;
  /** Prints a line that the next step or line replaces. Without a terminal, prints nothing. */
  passing(name: string, text: string): void;
  heading(text: string): void;
  line(text?: string): void;
}

const NAME_WIDTH = 11;
const DEFAULT_COLUMNS = 80;
const BAR_WIDTH = 32;
/** Moves to the first column and clears the line. */
const CLEAR = '\r\u001b[K';

export function makeScreen(
  output: NodeJS.WriteStream,
  environment: Readonly<Record<string, string | undefined>>,
): Screen {
  const isTerminal = output.isTTY === true;
  const isBold = isTerminal && !environment.NO_COLOR && environment.TERM !== 'dumb';
  const named = (name: string, text: string) => `  ${name.padEnd(NAME_WIDTH)} ${text}`;
  let hasPassing = false;
  const write = (text: string): void => {
    output.write(`${hasPassing ? CLEAR : ''}${text}`);
    hasPassing = false;
  };
  return {
    step: (name, text) => write(`${named(name, text)}\n`),
    passing(name, text) {
      if (!isTerminal) return;
      // A line that wraps could not be replaced.
      write(named(name, text).slice(0, (output.columns || DEFAULT_COLUMNS) - 1));
      hasPassing = true;
    },
    heading: (text) => write(`\n${isBold ? `\u001b[1m${text}\u001b[22m` : text}\n`),
    line: (text = '') => write(`${text}\n`),
  };
}

const THOUSANDS = new Intl.NumberFormat('en-US');
export const count = (value: number): string => THOUSANDS.format(value);

export function progressBar(done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const filled = Math.round(share * BAR_WIDTH);
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  return `[${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ${percent}  ${count(Math.min(done, total))} of ${count(total)}`;
}

/** Rows as aligned lines. Columns that `right` names by position are aligned to the right. */
export function table(rows: readonly (readonly string[])[], right: readonly number[] = []): string[] {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return right.includes(column) ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd(),
  );
}
