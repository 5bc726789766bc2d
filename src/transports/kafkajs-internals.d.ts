/** The parts of kafkajs 2.2.4 that fetch-decoding.ts reaches into. The version is pinned; a test notices when they move. */
declare module 'kafkajs/src/protocol/decoder' {
  class Decoder {
    constructor(buffer: Buffer);
    readInt16(): number;
    readInt32(): number;
    readInt64(): { toString(): string };
    readString(): string;
    readBytes(length: number): Buffer;
    readArray<T>(read: () => T): T[];
  }
  export = Decoder;
}

declare module 'kafkajs/src/protocol/requests/fetch/v11/response' {
  const response: { decode: (bytes: Buffer) => unknown };
  export = response;
}
