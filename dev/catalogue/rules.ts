/**
 * Everything that needs a test, one line each: `tag | requirement | where it is proven`.
 *
 * A test cites rules of docs/rules.md by their numbers: `[V4] [F2]`, or `[V4 F2]`. These brackets are at the
 * end of its title, or of the title of a describe around it.
 *
 * dev/rules-tests.ts compares this list with the tests that ran, and writes build/rules-tests.md.
 */
export type Proof =
  /** test/unit/domain: no server, no files. */
  | 'domain'
  /** Any other test: they need a store, a broker, a registry, files or the whole program. */
  | 'elsewhere'
  /** Not built yet. A test with this tag is an error: the line must change then. */
  | 'open';

export interface Requirement {
  readonly tag: string;
  readonly label: string;
  readonly proof: Proof;
}

export interface Chapter {
  readonly title: string;
  readonly requirements: readonly Requirement[];
}

const isProof = (text: string): text is Proof => text === 'domain' || text === 'elsewhere' || text === 'open';

/** @throws Error if a line does not have three parts: a mistake in this file */
export function readLines(title: string, lines: string): Chapter {
  const requirements = lines
    .trim()
    .split('\n')
    .map((line): Requirement => {
      const [tag, label, proof, ...more] = line.split('|').map((part) => part.trim());
      if (!tag || !label || proof === undefined || !isProof(proof) || more.length > 0)
        throw new Error(`dev/catalogue/rules.ts: not "tag | label | proof": ${line}`);
      return { tag, label, proof };
    });
  return { title, requirements };
}

export const CHAPTERS: readonly Chapter[] = [
  readLines(
    'Rules (docs/rules.md)',
    `
    C1 | operators own brands, catalogue, connections | domain
    C2 | a connection carries one brand or several | domain
    C3 | feeds | domain
    C4 | a topic that one connection names | domain
    C5 | a topic that several connections name | domain
    C6 | reference data applied whole and idempotently | elsewhere
    C7 | removals need a permission | elsewhere
    C8 | faults of a file, all at once | elsewhere
    C9 | new reference data from the next transaction on | elsewhere
    C10 | a topic of two operators is warned of | elsewhere
    C11 | events of tests count nowhere | elsewhere
    C12 | the mark of a test connection never changes | elsewhere
    S1 | one record is one event | domain
    S2 | Confluent wire format | domain
    S3 | registry unreachable, bytes that do not fit | domain
    S4 | unclaimed, schema_unknown | domain
    S5 | content of a dead letter | elsewhere
    S6 | a dead-letter topic that refuses | elsewhere
    S7 | verdict topic | elsewhere
    S8 | codecs, and the limit of a batch | elsewhere
    S9 | a verdict topic for each operator | elsewhere
    S10 | completions out | elsewhere
    F1 | one JSON object, unlisted fields ignored | domain
    F2 | spec, event_id | domain
    F3 | brand | domain
    F4 | player_ref | domain
    F5 | kinds | domain
    F6 | occurred_at | domain
    F7 | round_id, game | domain
    F8 | amount, currency, fields that a kind does not read | domain
    F9 | a batch is no event | domain
    M1 | form of an amount | domain
    M2 | exact minor units | domain
    M3 | signed 64 bits | domain
    M4 | currencies | domain
    M5 | major units, large sums | domain
    V1 | one verdict, duplicates | domain
    V2 | order of the reasons | domain
    V3 | no_idempotency_key | domain
    V4 | malformed | domain
    V5 | reasons of their own | domain
    V6 | kept fields of a refused event | domain
    V7 | bad_amount and currency_unknown | domain
    V8 | brand reasons | domain
    V9 | panic | domain
    G1 | zero_amount | domain
    G2 | game_denied, game_not_allowed | domain
    G3 | below_min_bet | domain
    G4 | game_unknown | domain
    G5 | account kinds read no promotion rule | domain
    R1 | any order of arrival | domain
    R2 | a refund removes the round | domain
    R3 | events after a refund | domain
    R4 | a refund's cost | elsewhere
    R5 | refunds without effect | domain
    R6 | one settled a round | domain
    R7 | counted events | domain
    R8 | effects of the order of arrival | domain
    R9 | several connections, one feed | domain
    A1 | second_settled | domain
    A2 | settled_mismatch | domain
    A3 | player, brand, currency mismatch | domain
    A4 | anomalies in answers | domain
    K1 | keys by feed | domain
    K2 | a key keeps its verdict | domain
    K3 | records that are read again | domain
    K4 | deliveries, content | domain
    K5 | keys of long ids | domain
    K6 | players that are erased or dropped with their month | domain
    L1 | entries and reversals | elsewhere
    L2 | entries never change | elsewhere
    L3 | a refunded round sums to zero | elsewhere
    L4 | ranges of numbers are final | elsewhere
    L5 | rollups equal a count | elsewhere
    L6 | rollups name players no longer than history | elsewhere
    Y1 | readers see pseudonyms, and no players | elsewhere
    Y2 | one pseudonym a player and operator | elsewhere
    Y3 | different players are counted exactly | elsewhere
    Y4 | erasures of pseudonyms | elsewhere
    Y5 | a new key of pseudonyms | elsewhere
    Y6 | views of readers are whole | elsewhere
    Y7 | how long pseudonyms are kept | elsewhere
    B1 | promo_player_ref | domain
    B2 | feed and brand of the same operator | elsewhere
    B3 | one attribution a round, the first stays | elsewhere
    B4 | credited in any order | elsewhere
    B5 | an attribution changes no verdict | elsewhere
    B6 | erased with either player | elsewhere
    B7 | kept with its month and its events | elsewhere
    B8 | readers see no credited player | elsewhere
    B9 | an audited correction of an attribution | elsewhere
    B10 | numbers of attributions | elsewhere
    P1 | events and players of a promotion | elsewhere
    P2 | the time of an event | elsewhere
    P3 | windows and local days | elsewhere
    P4 | local times that do not exist, or exist twice | elsewhere
    P5 | listed games | elsewhere
    P6 | minimum amounts | elsewhere
    P7 | targets by currency | elsewhere
    P8 | login streaks | elsewhere
    P9 | collected items | elsewhere
    P10 | points and ranks | elsewhere
    P11 | refunds of promotions | elsewhere
    P12 | completions and their ids | elsewhere
    P13 | late events | elsewhere
    P14 | confirmed completions | elsewhere
    P15 | the close of a leaderboard | elsewhere
    P16 | slices and the order of arrival | elsewhere
    P17 | changed definitions | elsewhere
    P18 | why an event does not count | elsewhere
    P19 | faults of a file of promotions | elsewhere
    P20 | preview of promotions | elsewhere
    P21 | documents of promotions | elsewhere
    P22 | promotions that are computed again | elsewhere
    P23 | promotions of an operator that moves | elsewhere
    X1 | a wallet call is stored before it is sent, with one content | elsewhere
    X2 | no bet is sent after its rollback is stored | elsewhere
    X3 | one process holds a call | elsewhere
    X4 | a crash leaves no call open | elsewhere
    X5 | data of players in wallet calls | elsewhere
    X6 | the backlog of wallet calls | elsewhere
    X7 | wallet calls and the move of an operator | elsewhere
    X8 | the clock of the store | elsewhere
    X9 | limits of calls to a wallet | elsewhere
    X10 | limits and secrets of an attempt | elsewhere
    D1 | one decision for every transport | elsewhere
    D2 | one transaction, in order of arrival | domain
    D3 | counters | elsewhere
    U1 | offsets after the commit | elsewhere
    U2 | waits of an undecided partition | domain
    U3 | the other partitions go on | elsewhere
    U4 | decided again at once | elsewhere
    U5 | a waiting retry is progress | elsewhere
    U6 | new and missing topics | elsewhere
    U7 | a topic that would be rejected is paused | elsewhere
    U8 | events that count for the limit on rejected events | elsewhere
    U9 | moves to another Kafka cluster | elsewhere
    U10 | drain | elsewhere
    T1 | verdicts are followed without a gap | elsewhere
    W1 | size of a webhook body | elsewhere
    W2 | webhook timestamps | elsewhere
    W3 | webhook overload | elsewhere
    W4 | webhook signatures | elsewhere
    W5 | answers to requests | elsewhere
    W6 | invalid requests | domain
    W7 | a replayed request is answered again, and writes nothing | elsewhere
    W8 | no sender takes the share of another | elsewhere
    W9 | a rehearsal stores nothing | elsewhere
    W10 | a rehearsal delays no decision | elsewhere
    W11 | a bad export is stopped | elsewhere
    O1 | error body of operator calls | elsewhere
    O2 | which statuses are retried | elsewhere
    O3 | meaning of a wallet's reply | elsewhere
    O4 | codes that some calls exclude | elsewhere
    O5 | a bet ends in a rollback | elsewhere
    O6 | other calls are resent for 72 h | elsewhere
    O7 | wallet-check sends nothing by a wrong profile | elsewhere
    O8 | scenarios of wallet-check | elsewhere
    O9 | limits and interruption of wallet-check | elsewhere
    O10 | no secret in the output of wallet-check | elsewhere
    O11 | published schemas grow | elsewhere
    O12 | signatures of the sandbox | elsewhere
    O13 | tokens and keys of the sandbox | elsewhere
    O14 | a round of the sandbox ends as a whole | elsewhere
    O15 | the sandbox says that it is one | elsewhere`,
  ),
];

export const REQUIREMENTS: readonly Requirement[] = CHAPTERS.flatMap(({ requirements }) => requirements);
