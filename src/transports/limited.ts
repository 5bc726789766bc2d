/**
 * All that comes, from whom more may come than is wanted.
 *
 * @throws RangeError beyond the limit
 */
export async function readLimited(
  what: string,
  chunks: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<Buffer> {
  const read: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new RangeError(`${what} of more than ${maxBytes} bytes`);
    read.push(chunk);
  }
  return Buffer.concat(read);
}

/** The body of an HTTP answer as text. @throws RangeError beyond the limit */
export async function readAnswer({ body }: Response, maxBytes: number): Promise<string> {
  return body === null ? '' : (await readLimited('an answer', body, maxBytes)).toString('utf8');
}
