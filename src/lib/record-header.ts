/** Headers of Kafka records. */

/**
 * A header of a record. A name may occur several times, in an order that is kept, and may be bytes that are
 * not text. A value may be null.
 */
export type Header = readonly [name: string | Buffer, value: Buffer | null];

export function isNamed(name: Header[0], wanted: string): boolean {
  return name.length === wanted.length && name.toString() === wanted;
}

/**
 * The value of the first header with this name, which may be null. Undefined where there is no such header.
 */
export function firstHeader(headers: Iterable<Header>, wanted: string): Buffer | null | undefined {
  for (const [name, value] of headers) if (isNamed(name, wanted)) return value;
  return undefined;
}
