/** The times of a contender's run: a line of JSON on stdout among other output. */

/** Milliseconds since 1970. */
export interface Span {
  readonly assignedAt: number;
  readonly endedAt: number;
}

export function writeSpan(span: Span): void {
  process.stdout.write(`${JSON.stringify(span)}\n`);
}

/** @throws if the output holds no span */
export function readSpan(output: string): Span {
  for (const line of output.split('\n')) {
    if (!line.startsWith('{"assignedAt":')) continue;
    const value: unknown = JSON.parse(line);
    if (typeof value !== 'object' || value === null) continue;
    const [assignedAt, endedAt] = ['assignedAt', 'endedAt'].map((name) => Number(Reflect.get(value, name)));
    if (assignedAt !== undefined && endedAt !== undefined) return { assignedAt, endedAt };
  }
  throw new Error('the program did not say when it began and ended');
}
