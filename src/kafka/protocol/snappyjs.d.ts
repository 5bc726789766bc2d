/** The part of snappyjs 0.7.0 that is used. Its decoder is not declared: compression.ts says why it is not used. */
declare module 'snappyjs' {
  /** Raw snappy, without any framing. A Buffer gives a Buffer. */
  export function compress(uncompressed: Buffer): Buffer;
}
