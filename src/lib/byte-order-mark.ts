const BYTE_ORDER_MARK = Buffer.from('\uFEFF');

/** The bytes without a byte order mark, which some programs write at the beginning of a file. */
export function withoutMark(bytes: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK;
  return bytes.subarray(0, length).equals(BYTE_ORDER_MARK) ? bytes.subarray(length) : bytes;
}
