/**
 * Leaves room in front of a request. kafkajs 2.2.4 writes the header of a request, and its length, in front
 * of it. For each it makes a buffer, fills that with zeros, and copies the request into it. A request of many
 * messages would be copied twice more.
 */
import Encoder from 'kafkajs/src/protocol/encoder';
import type { BufferPool } from '../../../lib/buffer-pool';

/** The length, the fixed part of the header, and a client id of usual length. */
const FRONT_BYTES = 4 + 10 + 246;

/** The encoders whose bytes have room in front: the whole buffer, and where the bytes begin in it. */
const fronts = new WeakMap<Encoder, { readonly whole: Buffer; readonly from: number }>();

export class EncoderWithFront extends Encoder {
  /** The whole buffer. */
  readonly memory: Buffer;

  /**
   * @param bytes of the request; one that outgrows them is copied by kafkajs as usual
   * @param pool has the memory
   */
  constructor(bytes: number, pool: BufferPool) {
    super(0);
    const whole = pool.take(FRONT_BYTES + bytes);
    this.memory = whole;
    this.buf = whole.subarray(FRONT_BYTES);
    fronts.set(this, { whole, from: FRONT_BYTES });
  }
}

const original = Encoder.prototype.writeEncoder;

/** An encoder that writes one with room in front takes over its buffer. */
export function installFront(): void {
  Encoder.prototype.writeEncoder = function (this: Encoder, value) {
    const front = fronts.get(value);
    const isInPlace = front !== undefined && value.buf.buffer === front.whole.buffer;
    if (!isInPlace || front.from < this.offset) return original.call(this, value);
    const from = front.from - this.offset;
    this.buf.copy(front.whole, from, 0, this.offset);
    this.buf = front.whole.subarray(from);
    this.offset += value.offset;
    fronts.set(this, { whole: front.whole, from });
    return this;
  };
}
