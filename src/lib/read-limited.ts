/** Reads all chunks of a source that may send too much. Null where they exceed `maxBytes`. */
export async function readUpTo(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer | null> {
  const read: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > maxBytes) return null;
    read.push(chunk);
  }
  return Buffer.concat(read);
}

/** The body of an HTTP answer as text. @throws RangeError beyond the limit */
export async function readAnswer(body: AsyncIterable<Uint8Array> | null, maxBytes: number): Promise<string> {
  if (body === null) return '';
  const read = await readUpTo(body, maxBytes);
  if (read === null) throw new RangeError(`an answer of more than ${maxBytes} bytes`);
  return read.toString('utf8');
}
