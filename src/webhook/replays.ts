/**
 * Keeps answers by the signature of their request. A request that is replayed byte for byte gets the same
 * answer and writes nothing (docs/rules.md, W7).
 *
 * Answers are kept in this process's memory, within a limit. A replay may come after its answer was dropped,
 * after a restart, or to another pod. It is then decided like any other request, and its events are
 * duplicates.
 */

/** The most memory of all kept answers. */
const KEPT_BYTES = 16 * 1024 ** 2;
/** Memory of an answer beside its text: its key, its entries in two maps, its object. */
const BYTES_BESIDE = 600;
/** JavaScript uses up to two bytes for a character. */
const BYTES_A_CHARACTER = 2;

interface Kept<A> {
  readonly answer: A;
  readonly bytes: number;
  /** When the signature expires, by the clock that checks signatures. */
  readonly until: number;
}

/** The answers of one connection. */
interface ConnectionAnswers<A> {
  readonly inFlight: Map<string, Promise<A>>;
  /** By signature, the oldest first. */
  readonly kept: Map<string, Kept<A>>;
  bytes: number;
}

export interface ReplaysOptions<A> {
  /** The text of an answer; null if the answer must not be kept because a retry may be answered otherwise. */
  readonly textOf: (answer: A) => string | null;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Overrides KEPT_BYTES. */
  readonly keptBytes?: number;
}

export interface Replays<A> {
  /**
   * Answers a signed request: with the kept answer, else with the answer in flight, else by `decide`.
   *
   * @param until when the signature expires, in milliseconds since 1970
   */
  answer(
    connectionId: string,
    signature: string,
    until: number,
    decide: () => Promise<A>,
  ): { readonly isAgain: boolean; readonly answer: Promise<A> };
  /** Forgets all kept answers. */
  forget(): void;
  /** The number of answers in flight. */
  inFlight(): number;
}

export function makeReplays<A>({ textOf, now, keptBytes = KEPT_BYTES }: ReplaysOptions<A>): Replays<A> {
  /** By connection id. Only connections with a secret get here, so the map is bounded. */
  const connections = new Map<string, ConnectionAnswers<A>>();
  let bytes = 0;

  function answersOf(connectionId: string): ConnectionAnswers<A> {
    let own = connections.get(connectionId);
    if (own === undefined) {
      own = { inFlight: new Map(), kept: new Map(), bytes: 0 };
      connections.set(connectionId, own);
    }
    return own;
  }

  function drop(own: ConnectionAnswers<A>, signature: string, kept: Kept<A>): void {
    own.kept.delete(signature);
    own.bytes -= kept.bytes;
    bytes -= kept.bytes;
  }

  /**
   * Drops the expired answers of a connection. While all connections together exceed the limit, it also drops
   * the oldest answer of the connection with the most memory.
   */
  function makeRoom(recent: ConnectionAnswers<A>): void {
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

  function keep(own: ConnectionAnswers<A>, signature: string, until: number, answer: A): void {
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
      const own = answersOf(connectionId);
      const kept = own.kept.get(signature);
      if (kept !== undefined && kept.until > now())
        return { isAgain: true, answer: Promise.resolve(kept.answer) };
      const inFlight = own.inFlight.get(signature);
      if (inFlight !== undefined) return { isAgain: true, answer: inFlight };
      const answer = decide();
      own.inFlight.set(signature, answer);
      answer.then(
        (given) => {
          own.inFlight.delete(signature);
          keep(own, signature, until, given);
        },
        () => own.inFlight.delete(signature),
      );
      return { isAgain: false, answer };
    },
    forget() {
      for (const own of connections.values()) for (const entry of own.kept) drop(own, ...entry);
    },
    inFlight() {
      let count = 0;
      for (const own of connections.values()) count += own.inFlight.size;
      return count;
    },
  };
}
