/** The part of snappyjs 0.7.0 that we use: its encoder. snappy.ts says why its decoder is not used. */
declare module 'snappyjs' {
  /** Raw snappy, without any framing. A Buffer gives a Buffer. */
  export function compress(uncompressed: Buffer): Buffer;
}
