/** Markdown of the generated documents. */

/** The first line of a generated document. */
export function generatedFrom(source: string, command: string): string {
  return `<!-- Generated from ${source} by \`${command}\`; changes belong there. -->`;
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** One line, in which no bar ends the cell. */
function cell(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|');
}

export function code(text: string): string {
  return `\`${text}\``;
}

export function codes(texts: readonly string[]): string {
  return texts.map(code).join(', ');
}

/** Blocks with an empty line between them; empty blocks are left out. */
export function document(blocks: readonly string[]): string {
  return `${blocks.filter((block) => block !== '').join('\n\n')}\n`;
}

/** A paragraph written over several lines of code. */
export function paragraph(...lines: readonly string[]): string {
  return lines.join('\n');
}

export function codeBlock(language: string, lines: readonly string[]): string {
  return [`\`\`\`${language}`, ...lines, '```'].join('\n');
}
