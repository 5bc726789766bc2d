/**
 * A fault at each point of a transaction that decides records of three partitions. Each statement fails by an
 * error of the store, and at each message the connection is lost. The records share rounds, and repeat events
 * across the partitions. They are new, partly read before, or all read before.
 *
 * Afterwards each event is decided once. Rows and offsets agree with the model of the rules.
 */

import type { Section } from '../../src/intake/delivery';
import { type Intake, makeIntake } from '../../src/intake/intake';
import { makeLedger } from '../../src/ledger/decide-batch';
import { makeReferences } from '../../src/ledger/reference-store';
import type { TopicPartition } from '../../src/lib/topic-partition';
import { makePool } from '../../src/postgres/pool';
import type { Store } from '../../src/postgres/transaction';
import { makeLogger } from '../../src/telemetry/logger';
import { FailingStore } from '../support/failing-store';
import {
  aBet,
  aLogin,
  anEnvelope,
  aRefund,
  aSettled,
  aWin,
  brief,
  type Content,
  freshStore,
  type TestStore,
  type WriterOptions,
} from '../support/ledger';
import { type Director, type Point, PostgresTap } from '../support/taps';
import { type PlannedPartition, type PlannedRecord, REFERENCE } from './plan';
import { placeOf, verify } from './verify';
import { record } from './writers';

jest.setTimeout(120_000);

/** How far the partitions of a case were decided before, without a committed offset. */
const READ_BEFORE: Readonly<Record<string, readonly number[]>> = {
  'is new': [1, 0, 0],
  'was partly read before': [7, 2, 0],
  'was read before': [7, 5, 4],
};
/** The committed offsets: only the first record of the first partition is behind one. */
const COMMITTED = [1, 0, 0];
/** A large batch finds decided events before it locks rounds. Dead letters precede a commit of its own. */
const KINDS = {
  'a small batch': { fewEvents: undefined, hasLetter: false },
  'a large batch with a dead letter': { fewEvents: 0, hasLetter: true },
} as const;

const SETUPS = Object.keys(READ_BEFORE).flatMap((readBefore) =>
  Object.entries(KINDS).map(([kind, options]) => ({
    title: `${kind} that ${readBefore}`,
    readBefore,
    ...options,
  })),
);
type Setup = (typeof SETUPS)[number];

/**
 * By SQLSTATE: the name of the error that keeps all parts undecided, after a failure of this statement. Null
 * where they are decided at once.
 */
const CONSEQUENCES: Readonly<Record<string, (statement: string) => string | null>> = {
  '40P01': () => null, // deadlock
  '57014': () => 'NotTogether', // statement timeout
  '53100': () => 'StoreError', // disk full: no other batch would be decided
  // A data exception. Statements on the partitions' own rows hold no data of an event.
  '22000': (statement) => (/^(lock|count)_partitions$/.test(statement) ? 'NotTogether' : null),
};

const by =
  (connection: string | null) =>
  (content: Content): PlannedRecord => ({
    content,
    claims: connection === 'acme-shared' ? [connection] : [],
    connection,
  });

/** Three partitions of one case. */
function partitionsOf(no: number, hasLetter: boolean): PlannedPartition[] {
  const id = (name: string) => `${name}-${no}`;
  const event = (kind: typeof aBet, event: string, round: string, fields = {}) =>
    kind({ event_id: id(event), round_id: id(round), ...fields });
  const login = aLogin({ event_id: id('login') });
  const contents: [string, number, PlannedRecord[]][] = [
    [
      'acme',
      2 * no,
      [
        event(aBet, 'bet-0', 'round-0'),
        event(aRefund, 'refund-0', 'round-0'),
        event(aBet, 'bet-1', 'round-1'),
        login,
        null,
        login,
        event(aBet, 'bet-2', 'round-2'),
      ].map(by('acme-stream')),
    ],
    [
      'acme',
      2 * no + 1,
      [
        event(aWin, 'win-1', 'round-1'),
        login,
        { no: 'id' },
        event(aBet, 'bet-1', 'round-1', { amount: '11.00' }),
        event(aRefund, 'refund-2', 'round-2'),
      ].map(by('acme-stream')),
    ],
    [
      'shared',
      no,
      [
        by('acme-shared')(event(aSettled, 'settled-1', 'round-1')),
        by(hasLetter ? null : 'acme-shared')(aLogin({ event_id: id('other-login') })),
        by('acme-shared')(event(aBet, 'bet-2', 'round-2')),
        by('acme-shared')(event(aBet, 'bet-3', 'round-0')),
      ],
    ],
  ];
  return contents.map(([topic, partition, records]) => ({ topic, partition, records, readers: [] }));
}

/** The cases of a test in one store. */
class Cases {
  readonly recorded = record();
  readonly partitions: PlannedPartition[] = [];
  private readonly answers = new Map<string, string[]>();
  private readonly letters = new Set<string>();
  private lettersExpected = 0;
  private readonly undisturbed: Intake;

  constructor(readonly store: TestStore) {
    this.undisturbed = store.writer({ ...this.recorded.options, ...this.sender }).intake;
  }

  /** An intake over a store that fails. */
  intakeOver(failing: Store, { fewEvents }: Setup): Intake {
    const ledger = makeLedger(failing, { fewEvents });
    return makeIntake({
      ledger: this.recorded.options.wrap?.(ledger) ?? ledger,
      references: makeReferences(this.store.pool),
      ...this.sender,
      logger: makeLogger('silent'),
      now: () => performance.now(),
    });
  }

  private get sender(): Required<Pick<WriterOptions, 'sendDeadLetters'>> {
    return {
      sendDeadLetters: async (letters) => {
        for (const { source, envelope } of letters)
          this.letters.add(placeOf(source.topic, source.partition, envelope.offset));
      },
    };
  }

  /** Has a case decided as far as its setup says. @returns the parts behind the committed offsets */
  async begin({ readBefore, hasLetter }: Setup): Promise<Section<TopicPartition>[]> {
    const partitions = partitionsOf(this.partitions.length / 3, hasLetter);
    this.partitions.push(...partitions);
    if (hasLetter) this.lettersExpected++;
    const before = READ_BEFORE[readBefore] ?? [];
    for (const [index, partition] of partitions.entries()) {
      const to = before[index] ?? 0;
      if (to > 0) await this.decide(this.undisturbed, [partOf(partition, 0, to)]);
    }
    return partitions.map((partition, index) => partOf(partition, COMMITTED[index] ?? 0));
  }

  /** @returns for each part the name of the error that keeps it undecided, or null */
  async decide(intake: Intake, parts: readonly Section<TopicPartition>[]): Promise<(string | null)[]> {
    const results = await intake.decide(parts);
    return results.map(({ answers, undecided }, index) => {
      const { origin, envelopes } = parts[index] ?? {};
      for (const answer of answers) {
        const place = placeOf(origin?.topic ?? '', origin?.partition ?? 0, answer.envelope.offset);
        this.answers.set(place, [...(this.answers.get(place) ?? []), brief(answer)]);
      }
      expect(answers).toHaveLength(undecided === null ? (envelopes?.length ?? 0) : 0);
      return undecided?.name ?? null;
    });
  }

  /** Decides what a fault has left, as a new owner of the partitions does. */
  async decideAgain(parts: readonly Section<TopicPartition>[]): Promise<void> {
    expect(await this.decide(this.undisturbed, parts)).toEqual([null, null, null]);
  }

  async check(): Promise<void> {
    const { store, partitions, recorded, answers } = this;
    await verify({
      store,
      plan: { seed: 1, partitions, backendKillsMs: [] },
      items: recorded.items,
      answers,
    });
    expect(
      (
        await store.rows('select topic, partition, next_offset, decided_up_to from promo_store.partitions')
      ).sort(),
    ).toEqual(
      partitions
        .map(({ topic, partition, records }) => [topic, `${partition}`, `${records.length}`, null])
        .sort(),
    );
    expect(this.letters.size).toBe(this.lettersExpected);
  }
}

function partOf(
  { topic, partition, records }: PlannedPartition,
  from: number,
  to = records.length,
): Section<TopicPartition> {
  return {
    origin: { topic, partition },
    envelopes: records
      .slice(from, to)
      .map(({ content, claims }, index) => anEnvelope(content, from + index, claims)),
    expectedUpTo: from,
  };
}

let store: TestStore;
let cases: Cases;
beforeEach(async () => {
  store = await freshStore({ reference: REFERENCE });
  cases = new Cases(store);
});
afterEach(() => store.close());

test.each(SETUPS)(
  'an error at each statement of $title, of three partitions, leaves nothing behind [U1] [U3] [U4] [K3] [D2] [D3]',
  async (setup) => {
    const failing = new FailingStore(store.pool);
    const intake = cases.intakeOver(failing, setup);
    expect(await cases.decide(intake, await cases.begin(setup))).toEqual([null, null, null]);
    const { statements } = failing;
    expect(statements.length).toBeGreaterThan(6);
    for (const [index, statement] of statements.entries()) {
      for (const [sqlState, consequence] of Object.entries(CONSEQUENCES)) {
        const parts = await cases.begin(setup);
        failing.failAt(index, sqlState);
        const undecided = await cases.decide(intake, parts);
        expect({ statement, sqlState, undecided }).toEqual({
          statement,
          sqlState,
          undecided: parts.map(() => consequence(statement)),
        });
        await cases.decideAgain(parts);
      }
    }
    await cases.check();
  },
);

/** Holds one decision of several partitions at a point. */
class Holding implements Director {
  point: Point | null = null;
  passedPoints: Point[] = [];
  private onHeld: () => void = () => undefined;

  begins(of: string): Point | null {
    const { point } = this;
    if (!isDecision(of)) return null;
    this.point = null;
    return point;
  }
  passed(of: string, point: Point): void {
    if (isDecision(of)) this.passedPoints.push(point);
  }
  held(): void {
    this.onHeld();
  }
  untilHeld(): Promise<void> {
    return new Promise((resolve) => {
      this.onHeld = resolve;
    });
  }
}

const isDecision = (of: string): boolean => /^decision of partition \d+, \d+, \d+$/.test(of);

test.each(SETUPS)(
  'a connection that is lost at each message of $title, of three partitions, decides no event twice [U1] [U2] [K3] [D2] [D3]',
  async (setup) => {
    const holding = new Holding();
    const { tap, url } = await PostgresTap.open(store.url, holding);
    const pool = makePool(
      { databaseUrl: url, maxConnections: 1, applicationName: 'promo-test' },
      makeLogger('silent'),
    );
    // Connections that are slow at first would make the store far. A decision has fewer messages then.
    const intake = cases.intakeOver({ isFar: false, acquire: () => pool.acquire() }, setup);
    try {
      // The second batch prepares no statement.
      for (let times = 0; times < 2; times++) {
        holding.passedPoints = [];
        expect(await cases.decide(intake, await cases.begin(setup))).toEqual([null, null, null]);
      }
      const points = [...holding.passedPoints];
      expect(points.length).toBeGreaterThan(15);
      for (const point of points) {
        const parts = await cases.begin(setup);
        const held = holding.untilHeld();
        holding.point = point;
        const deciding = cases.decide(intake, parts);
        const early = await Promise.race([held, deciding]);
        if (early !== undefined) throw new Error(`decided in front of ${point.what}: ${early}`);
        tap.cut();
        const undecided = await deciding;
        expect({ point, undecided }).toEqual({ point, undecided: parts.map(() => 'StoreError') });
        await cases.decideAgain(parts);
      }
      await cases.check();
    } finally {
      await pool.end();
      await tap.close();
    }
  },
);
