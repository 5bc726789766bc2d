/**
 * Everything that needs a test, one line each: `tag | requirement | where it is proven`.
 *
 * A test cites tags in brackets at the end of its title or of a describe around it: `[V4] [2.1 spec]`. A rule
 * is cited by its number in docs/rules.md. A row of the specification's tables is cited by the table's number
 * and a word. A reading R1-R5 is cited by its number and a word. So `[R3]` is rule R3 of docs/rules.md, and
 * `[R3 refund once]` a sentence of reading R3.
 *
 * dev/rules-tests.ts compares this list with the tests that ran, and writes build/rules-tests.md.
 */
export type Proof =
  /** test/unit/domain: no server, no files. */
  | 'domain'
  /** Any other test: they need a store, a broker, a registry, files or the whole program. */
  | 'elsewhere'
  /** Not built yet. A test that proves it all the same is an error: then the line has to be changed. */
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
    C7 | removals have to be allowed | elsewhere
    C8 | what is refused, all at once | elsewhere
    C9 | new reference data from the next transaction on | elsewhere
    S1 | one record is one event | domain
    S2 | Confluent wire format | domain
    S3 | registry unreachable, bytes that do not fit | domain
    S4 | unclaimed, schema_unknown | domain
    S5 | what a dead letter carries | elsewhere
    S6 | a dead-letter topic that refuses | elsewhere
    S7 | verdict topic | elsewhere
    S8 | codecs, and the limit of a batch | elsewhere
    F1 | one JSON object, unlisted fields ignored | domain
    F2 | spec, event_id | domain
    F3 | brand | domain
    F4 | player_ref | domain
    F5 | kinds | domain
    F6 | occurred_at | domain
    F7 | round_id, game | domain
    F8 | amount, currency, what a kind does not read | domain
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
    V6 | what a refused event keeps | domain
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
    R3 | what comes after a refund | domain
    R4 | a refund's cost | elsewhere
    R5 | refunds without effect | domain
    R6 | one settled a round | domain
    R7 | what is counted | domain
    R8 | what depends on the order of arrival | domain
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
    U8 | what the limit on rejected events counts | elsewhere
    U9 | moves to another Kafka cluster | elsewhere
    W1 | size of a webhook body | elsewhere
    W2 | webhook timestamps | elsewhere
    W3 | webhook overload | elsewhere
    W4 | webhook signatures | elsewhere
    W5 | what a request is answered | elsewhere
    W6 | what is no request | domain
    W7 | a replayed request is answered again, and writes nothing | elsewhere
    W8 | no sender takes the share of another | elsewhere`,
  ),
  readLines(
    'Specification 2.1: fields of an event',
    `
    2.1 spec | spec | domain
    2.1 event_id | event_id | domain
    2.1 brand | brand | domain
    2.1 player_ref | player_ref | domain
    2.1 kind | kind | domain
    2.1 round_id | round_id | domain
    2.1 game | game | domain
    2.1 game.id | game.id | domain
    2.1 amount | amount | domain
    2.1 currency | currency | domain
    2.1 occurred_at | occurred_at | domain
    2.1 unlisted fields | ignored at the top level and in game | domain
    2.1 round conditionals | what round kinds require | domain
    2.1 account conditionals | what account kinds require | domain
    2.1 events key | a batch is no event | domain`,
  ),
  readLines(
    'Specification 2.2: batches',
    `
    2.2 one event or batch | what the webhook takes | domain
    2.2 each on its own | one invalid event leaves the others alone | domain`,
  ),
  readLines(
    'Specification 2.3: amounts',
    `
    2.3 pattern | the pattern | domain
    2.3 exact minor units | exact conversion | domain
    2.3 int64 | signed 64 bits | domain
    2.3 scale-2 decimals | 0 to 2 decimals of a scale-2 currency | domain
    2.3 scale-0 integer | whole units of a scale-0 currency | domain
    2.3 scale-8 decimals | up to 8 decimals of a scale-8 currency | domain
    2.3 zero string | zero by kind | domain
    2.3 3 decimals of scale 2 | too many decimals | domain
    2.3 decimals of scale 0 | any decimals are too many | domain
    2.3 JSON number | a number is no amount | domain
    2.3 bad syntax | signs, exponents, commas, zeros, dots, nothing | domain`,
  ),
  readLines(
    'Specification 2.4: currencies',
    `
    2.4 scale 0 | JPY | domain
    2.4 scale 2 | USD to ZAR | domain
    2.4 scale 6 | USDT to TRX | domain
    2.4 scale 8 | BTC, LTC, DOGE | domain
    2.4 scale 9 | SOL | domain
    2.4 scale 18 | DAI to MATIC | domain
    2.4 not in the table | set aside | domain`,
  ),
  readLines(
    'Specification 3.1: verdicts',
    `
    3.1 rejected | undecided to rejected | domain
    3.1 skipped | undecided to skipped | domain
    3.1 accepted | undecided to accepted | domain
    3.1 duplicate | decided stays decided | domain`,
  ),
  readLines(
    'Specification 3.2: refunds of rounds',
    `
    3.2 refund | what was counted is reversed | domain
    3.2 refunded | a later bet or settled | domain
    3.2 rule 1 | any order | domain
    3.2 rule 2 | one settled, the sum of the bets | domain
    3.2 rule 3 | credit on settled: promotions are computed elsewhere | open
    3.2 rule 4 | when a refund is sent: the operator's part | open
    3.2 rule 5 | two transports, one event | domain`,
  ),
  readLines(
    'Specification 6.1: kinds',
    `
    6.1 bet | bet | domain
    6.1 win | win | domain
    6.1 refund | refund | domain
    6.1 settled | settled | domain
    6.1 deposit | deposit | domain
    6.1 withdrawal | withdrawal | domain
    6.1 login | login | domain
    6.1 account kinds | no round, no game, no minimum, zero decided | domain`,
  ),
  readLines(
    'Specification 7.1: reasons',
    `
    7.1 no_idempotency_key | no usable id | domain
    7.1 malformed | wrong type or form | domain
    7.1 op_unknown | unknown kind | domain
    7.1 no_player | no player | domain
    7.1 bad_amount | no exact amount | domain
    7.1 no_brand | brand missing | domain
    7.1 brand_unexpected | brand present | domain
    7.1 brand_unmapped | brand not registered | domain
    7.1 operator_inactive | brand or operator not active | domain
    7.1 panic | processing failed | elsewhere
    7.1 currency_unknown | currency not in the table | domain
    7.1 zero_amount | bet or settled of zero | domain
    7.1 game_denied | denied game | domain
    7.1 game_not_allowed | game not listed | domain
    7.1 below_min_bet | bet too small | domain
    7.1 game_unknown | not in the catalogue | domain
    7.1 round_refunded | round refunded before | domain
    7.1 duplicate | decided before | domain`,
  ),
  readLines(
    'Specification 8 and 9: limits and versions of events',
    `
    8 brand, player_ref | 255 bytes | domain
    8 amount | exact, 64 bits | domain
    8 settled per round | one | domain
    8 retry of undecided | 1 s doubling to 30 s | domain
    8 webhook timestamp | 300 s | elsewhere
    8 webhook size | 500 events, 1 MiB | elsewhere
    8 webhook slot | 0.5 s, 503 | elsewhere
    9 unknown fields | ignored | domain`,
  ),
  readLines(
    'Reading R1: who sent it',
    `
    R1 operator | operator, brands, catalogue, connections | domain
    R1 feed | ids and rounds by feed | domain
    R1 topic of one connection | claims do not matter | domain
    R1 shared topic | the connection-id header | domain
    R1 dead letter | byte for byte, acks of all, before the offset | elsewhere
    R1 shared warning | two operators on one topic are warned of | elsewhere
    R1 wire format | byte 0x00, JSON Schema, Avro | elsewhere
    R1 registry | unreachable, unknown id, bytes that do not fit | elsewhere
    R1 two connections | the first arrival decides | domain`,
  ),
  readLines(
    'Reading R2: precedence',
    `
    R2 precedence | duplicate, rejected, skipped, by the rows of 7.1 | domain
    R2 no_idempotency_key | what is no usable id | domain
    R2 malformed | what is malformed | domain
    R2 own reasons | what has a reason of its own | domain
    R2 unread | what a kind does not read | domain
    R2 bad_amount | form first, scale and range where the currency is known | domain
    R2 brand | present and empty, id used up | domain
    R2 operator_inactive | brand or operator | domain
    R2 panic | alone, twice | elsewhere
    R2 game rules | bet, win, settled | domain
    R2 below_min_bet | bet, per brand and currency | domain
    R2 game_unknown | any entry makes a catalogue | domain
    R2 zero_amount | bet and settled | domain`,
  ),
  readLines(
    'Reading R3: rounds',
    `
    R3 refund once | reversed exactly once | domain
    R3 refund cost | a million events, under a second | elsewhere
    R3 ineffective refund | not accepted, or a duplicate | domain
    R3 second settled | accepted, counts nothing | domain
    R3 anomalies | sum and disagreement | domain
    R3 order independence | order, batches, partitions | domain`,
  ),
  readLines(
    'Reading R4: what a verdict row is',
    `
    R4 one row | one row each, duplicates as deliveries | elsewhere
    R4 redelivery | known by key and coordinates together | domain
    R4 rejected fields | what is valid is kept, to the microsecond | domain
    R4 money | minor units, code, scale, readable in major units | domain
    R4 new id | every answer about a decided event says whether a corrected one needs a new event_id | domain
    R4 ledger | entries, reversals, sums of zero | elsewhere
    R4 history dropped | what is needed lives as long as the ids | elsewhere
    R4 key keeps | verdict, reason, content hash | domain
    R4 reference fresh | never stale | elsewhere`,
  ),
  readLines(
    'Reading R5: undecided',
    `
    R5 offsets | after the commit | elsewhere
    R5 backoff | 1, 2, 4, 8, 16, 30 s | domain
    R5 others go on | partitions, member, shutdown, loss | elsewhere
    R5 one partition | no transaction spans partitions | elsewhere
    R5 at once | five times, smaller batches | elsewhere
    R5 liveness | a waiting retry is progress | elsewhere`,
  ),
  readLines(
    'Reading R6: the program',
    `
    R6 drain | --drain ends when everything is decided | elsewhere`,
  ),
];

export const REQUIREMENTS: readonly Requirement[] = CHAPTERS.flatMap(({ requirements }) => requirements);
