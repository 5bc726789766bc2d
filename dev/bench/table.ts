/** A table of figures, as text for a terminal and as Markdown. */

export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Sentences below the table. */
  readonly notes: readonly string[];
}

/** The first column is aligned to the left, the figures to the right. */
export function tableText({ columns, rows, notes }: Table): string[] {
  const widths = columns.map((column, index) =>
    Math.max(column.length, ...rows.map((row) => (row[index] ?? '').length)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, index) =>
        index === 0 ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(columns), ...rows.map(line), ...notes];
}

/** Cells that are aligned to the right: numbers and ranges of numbers. */
const FIGURE = /^[-\d.,\s]*$/;

export function tableMarkdown({ columns, rows, notes }: Table): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  const rule = columns.map((_, index) =>
    rows.every((row) => FIGURE.test(row[index] ?? '')) ? '---:' : '---',
  );
  return [
    line(columns),
    line(rule),
    ...rows.map(line),
    ...(notes.length === 0 ? [] : ['', notes.join(' ')]),
  ].join('\n');
}

/** A figure with this many decimals; a dash if it could not be measured. */
export function figure(value: number | null, decimals = 0): string {
  return value === null || !Number.isFinite(value)
    ? '-'
    : value.toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

export function times(value: number): string {
  return figure(value, 2);
}
