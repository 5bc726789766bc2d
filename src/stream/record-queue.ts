/** A queue whose records are decoded when they are read. */

import { RECORD_OVERHEAD_BYTES } from '../kafka/protocol/record';
import { ChunkQueue, type QueueShares } from './chunk-queue';
import type { StreamDeps } from './deps';
import { type DecodedRecords, decodeRecords } from './envelope';

export interface ReadRecords extends DecodedRecords {
  /** Memory that the records keep. */
  readonly bytes: number;
}

export const NO_RECORDS: ReadRecords = { envelopes: [], failure: null, bytes: 0 };

export class RecordQueue extends ChunkQueue {
  /** Records at the head whose schemas had to be requested from the registry, decoded. */
  private decoded: ReadRecords | null = null;

  constructor(
    shares: QueueShares,
    private readonly wireFormat: StreamDeps['wireFormat'],
  ) {
    super(shares);
  }

  /**
   * Reads as `peek` does, and decodes.
   *
   * @returns a promise in `requesting` where schemas are requested from the registry first
   */
  async decode(
    maxRecords: number,
    maxBytes: number,
    behind: number,
    mayOpen = true,
  ): Promise<ReadRecords | { readonly requesting: Promise<ReadRecords> }> {
    const { decoded } = this;
    if (decoded !== null && behind === 0) {
      this.decoded = null;
      this.releaseOpened();
      const isWhole = decoded.envelopes.length <= maxRecords;
      return isWhole
        ? decoded
        : { ...decoded, envelopes: decoded.envelopes.slice(0, maxRecords), failure: null };
    }
    const records = await this.peek(maxRecords, maxBytes, behind, mayOpen);
    const bytes = records.reduce((sum, { size }) => sum + RECORD_OVERHEAD_BYTES + size, 0);
    let isRequesting = false;
    const decoding = decodeRecords(records, this.wireFormat, (answer) => {
      isRequesting = true;
      return answer;
    }).then((read) => ({ ...read, bytes }));
    return isRequesting ? { requesting: decoding } : decoding;
  }

  /** Keeps records for the next call of `decode`. */
  keepDecoded(decoded: ReadRecords): void {
    this.decoded = decoded;
  }

  override clear(): void {
    super.clear();
    this.decoded = null;
  }
}
