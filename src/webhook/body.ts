/**
 * Reads the body of a request into one buffer. The buffer has the length that Content-Length declares, or
 * doubles as it grows. A body is limited in bytes and in pieces: each piece costs time, even a small one.
 */
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../lib/clock';

/** The most pieces (chunks or packets) of one body: 256 bytes each in a body of 1 MiB. */
export const MAX_PIECES = 4_096;
/** Size of the first buffer if no length is declared. */
const FIRST_BYTES = 16_384;
/**
 * A refused body is read up to this limit, so that its sender reads the answer before the connection ends.
 */
const DRAIN_BYTES = 4 * 1024 ** 2;
const DRAIN_WITHIN_MS = 2_000;

export type Body =
  | { readonly type: 'whole'; readonly bytes: Buffer }
  | { readonly type: 'too_large' }
  | { readonly type: 'too_many_pieces' }
  /** `BodyReading.abort` was called. */
  | { readonly type: 'given_up' };

export interface BodyReading {
  /** Rejects if the sender leaves before the end. */
  readonly body: Promise<Body>;
  /** Stops reading a body that is not whole yet. */
  abort(): void;
}

/** Reads the body of a request. @param maxBytes the limit, even if Content-Length declares less */
export function readRequestBody(request: IncomingMessage, maxBytes: number): BodyReading {
  const declared = Number(request.headers['content-length'] ?? Number.NaN);
  let buffer: Buffer | null = null;
  let length = 0;
  let pieces = 0;
  let settle: (body: Body) => void = () => undefined;

  const body = new Promise<Body>((resolve, reject) => {
    const onData = (piece: Buffer) => {
      if (++pieces > MAX_PIECES) settle({ type: 'too_many_pieces' });
      else if (length + piece.length > maxBytes) settle({ type: 'too_large' });
      else add(piece);
    };
    const onEnd = () => settle({ type: 'whole', bytes: (buffer ?? NO_BYTES).subarray(0, length) });
    const onClose = () => {
      stop();
      reject(new Error('the sender aborted the request'));
    };
    const stop = () => {
      request.off('data', onData).off('end', onEnd).off('close', onClose);
    };
    settle = (result) => {
      stop();
      // The rest of an unfinished body is drained after the answer. The buffer is released now.
      if (result.type !== 'whole') request.pause();
      buffer = null;
      resolve(result);
    };
    request.on('data', onData).once('end', onEnd).once('close', onClose).on('error', ignore);
    if (request.destroyed) onClose();
  });

  function add(piece: Buffer): void {
    if (buffer === null || length + piece.length > buffer.length) {
      const needed = length + piece.length;
      const first = Number.isNaN(declared) ? FIRST_BYTES : Math.min(declared, maxBytes);
      const larger = Buffer.allocUnsafe(
        Math.min(maxBytes, Math.max(needed, buffer === null ? first : buffer.length * 2)),
      );
      buffer?.copy(larger, 0, 0, length);
      buffer = larger;
    }
    piece.copy(buffer, length);
    length += piece.length;
  }

  return { body, abort: () => settle({ type: 'given_up' }) };
}

/** Reads and discards the rest of a refused body. @returns whether the body ended within the limits */
export function drainBody(clock: Clock, request: IncomingMessage): Promise<boolean> {
  if (request.complete) {
    request.resume();
    return Promise.resolve(true);
  }
  return new Promise((resolve) => {
    let [bytes, pieces] = [0, 0];
    const timer = clock.after(DRAIN_WITHIN_MS, () => done(false));
    const onData = (piece: Buffer) => {
      bytes += piece.length;
      if (++pieces > MAX_PIECES || bytes > DRAIN_BYTES) done(false);
    };
    const onEnd = () => done(true);
    const onClose = () => done(false);
    const done = (isWhole: boolean) => {
      clock.cancel(timer);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      resolve(isWhole);
    };
    request.on('data', onData).once('end', onEnd).once('close', onClose).on('error', ignore);
    request.resume();
  });
}

/** The `close` event that follows is handled instead. */
const ignore = (): void => undefined;
const NO_BYTES = Buffer.alloc(0);
