/**
 * Answers to requests by their signature, so that a request that comes again byte for byte is given the same answer and
 * writes nothing (docs/rules.md, W7). The store is this process's own and bounded: beyond its limit, in another pod, and
 * after a restart a replayed request is decided like any other, and its events are duplicates.
 */

/** Memory of all answers that are kept. */
const KEPT_BYTES = 16 * 1024 ** 2;
/** What an answer takes beside its text: its key, its place in two maps, its object. */
const BYTES_BESIDE = 600;
/** JavaScript may take two bytes for a character. */
const BYTES_A_CHARACTER = 2;

interface Kept<A> {
  readonly answer: A;
  readonly bytes: number;
  /** From then on its signature is not of now any more, by the clock that signatures are compared with. */
  readonly until: number;
}

/** Answers of one connection. */
interface Own<A> {
  readonly underWay: Map<string, Promise<A>>;
  /** The oldest first. */
  readonly kept: Map<string, Kept<A>>;
  bytes: number;
}

export interface ReplaysOptions<A> {
  /** The text of an answer that is kept; null for one that is not, since the next try may be answered otherwise. */
  readonly textOf: (answer: A) => string | null;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Instead of KEPT_BYTES. */
  readonly keptBytes?: number;
}

export interface Replays<A> {
  /**
   * The answer to a signed request: the one that was given before or is under way, else that of `decide`.
   *
   * @param until when the signature expires, in milliseconds since 1970
   */
  answer(
    connectionId: string,
    signature: string,
    until: number,
    decide: () => Promise<A>,
  ): { readonly isAgain: boolean; readonly answer: Promise<A> };
}

export function makeReplays<A>({ textOf, now, keptBytes = KEPT_BYTES }: ReplaysOptions<A>): Replays<A> {
  /** By connection; there are no more of them than have secrets. */
  const connections = new Map<string, Own<A>>();
  let bytes = 0;

  function ownOf(connectionId: string): Own<A> {
    let own = connections.get(connectionId);
    if (own === undefined) {
      own = { underWay: new Map(), kept: new Map(), bytes: 0 };
      connections.set(connectionId, own);
    }
    return own;
  }

  function drop(own: Own<A>, signature: string, kept: Kept<A>): void {
    own.kept.delete(signature);
    own.bytes -= kept.bytes;
    bytes -= kept.bytes;
  }

  /** Drops what has expired of a connection, and while there is too much of all the oldest of the one with the most. */
  function makeRoom(recent: Own<A>): void {
    for (const [signature, kept] of recent.kept) {
      if (kept.until > now()) break;
      drop(recent, signature, kept);
    }
    while (bytes > keptBytes) {
      let largest = recent;
      for (const own of connections.values()) if (own.bytes > largest.bytes) largest = own;
      const [oldest] = largest.kept;
      if (oldest === undefined) return;
      drop(largest, ...oldest);
    }
  }

  function keep(own: Own<A>, signature: string, until: number, answer: A): void {
    const text = textOf(answer);
    if (text === null) return;
    const size = text.length * BYTES_A_CHARACTER + BYTES_BESIDE;
    own.kept.set(signature, { answer, bytes: size, until });
    own.bytes += size;
    bytes += size;
    makeRoom(own);
  }

  return {
    answer(connectionId, signature, until, decide) {
      const own = ownOf(connectionId);
      const kept = own.kept.get(signature);
      if (kept !== undefined && kept.until > now())
        return { isAgain: true, answer: Promise.resolve(kept.answer) };
      const underWay = own.underWay.get(signature);
      if (underWay !== undefined) return { isAgain: true, answer: underWay };
      const answer = decide();
      own.underWay.set(signature, answer);
      answer.then(
        (given) => {
          own.underWay.delete(signature);
          keep(own, signature, until, given);
        },
        () => own.underWay.delete(signature),
      );
      return { isAgain: false, answer };
    },
  };
}
