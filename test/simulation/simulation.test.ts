/**
 * Many runs of the simulator. By default the seeds are the same each time; `make simulate` draws others, or
 * repeats one run.
 */
import { inRun } from '../../dev/long-run';
import { contentHashOf } from '../../src/domain/event/content-hash';
import type { KeyedItem } from '../../src/domain/verdict/decide';
import type { Origin } from '../../src/intake/delivery';
import type { RecordSource } from '../../src/kafka/port';
import type { Ledger } from '../../src/ledger/decide-batch';
import { StoreError } from '../../src/postgres/errors';
import { NotAllPublished, type PublishVerdicts } from '../../src/publishing/published-answer';
import { Coverage, type Fault, firstSeeds, PAIRS } from './faults';
import { makePlan, WITHOUT_NOTHING } from './plan';
import { describeFailure, type Failure, readWithout, shrink } from './shrink';
import { type Sabotage, simulate } from './simulation';

const { SEED, FIRST_SEED, WITHOUT } = process.env;
const COUNT = inRun({ usual: 350, long: 1_000, variable: 'SEEDS' });
const FIRST = Number(FIRST_SEED ?? 1);
/** Maximum number of runs for a pair of await and fault that no earlier run has brought about. */
const MAX_RUNS_FOR_A_PAIR = 150;
/** Maximum number of runs for a batch that no earlier run has brought about. */
const MOST_SEEDS = 10_000;
/** Maximum number of failures that are shrunk and described: the first one says most. */
const MAX_DESCRIBED = 3;

jest.setTimeout(240_000 + COUNT * 200);

const ofAllSeeds = SEED === undefined ? test : test.skip;
const ofOneSeed = SEED === undefined ? test.skip : test;

ofAllSeeds(
  'no fault loses a record or counts it twice, and all records are decided in the end [D2] [D3] [K1] [K3] [L3] [R1] [S5] [S6] [S7] [S9] [U1] [U2] [U3] [U4] [V1] [V9] [C9]',
  async () => {
    const coverage = new Coverage();
    const failed = new Map<number, string>();
    const began = performance.now();
    let steps = 0;
    const run = async (seed: number) => {
      const outcome = await simulate(makePlan(seed), coverage);
      steps += outcome.steps;
      if (outcome.problem !== null) failed.set(seed, outcome.problem);
    };
    for (let seed = FIRST; seed < FIRST + COUNT; seed++) await run(seed);
    let seeds = COUNT;
    for (const place of failed.size === 0 ? coverage.missing() : []) {
      // A seed's focus is the pair at its place. Run further seeds with this pair as their focus.
      const next = FIRST + COUNT + PAIRS.length - ((FIRST + COUNT) % PAIRS.length) + place;
      for (let tries = 0; tries < MAX_RUNS_FOR_A_PAIR && coverage.missing().includes(place); tries++) {
        await run(next + tries * PAIRS.length);
        seeds++;
      }
    }
    // Few restored stores are behind in several partitions of one batch.
    for (; failed.size === 0 && coverage.behindInSeveral === 0 && seeds < MOST_SEEDS; seeds++)
      await run(FIRST + seeds + MOST_SEEDS);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    process.stdout.write(
      `${coverage.table()}\nsimulation: ${seeds} seeds from ${FIRST} on, ${steps} steps, ${failed.size} failed, ${seconds} s\n`,
    );
    const described: Failure[] = [];
    for (const [seed, problem] of [...failed].slice(0, MAX_DESCRIBED))
      described.push(await shrink(seed, problem));
    const others = [...failed]
      .slice(MAX_DESCRIBED)
      .map(([seed, problem]) => `seed ${seed} breaks ${problem}`);
    expect([...described.map(describeFailure), ...others].join('\n\n')).toBe('');
    expect(coverage.behindInSeveral).toBeGreaterThan(0);
    expect(coverage.missing().map((place) => PAIRS[place]?.join(' / '))).toEqual([]);
  },
);

ofOneSeed('one seed, with its trace', async () => {
  const seed = Number(SEED);
  const without = WITHOUT === undefined ? WITHOUT_NOTHING : readWithout(WITHOUT);
  const outcome = await simulate(makePlan(seed, without), new Coverage(), { traced: true });
  process.stdout.write(`${describeFailure({ seed, without, outcome })}\n`);
  expect(outcome.problem).toBeNull();
});

ofAllSeeds('the same seed takes the same steps', async () => {
  for (const seed of [3, 17, 400, ...firstSeeds(2, 'request body')]) {
    const traces = [];
    for (let times = 0; times < 2; times++) {
      const { trace } = await simulate(makePlan(seed), new Coverage(), { traced: true });
      traces.push(trace);
    }
    expect(traces[0]?.length).toBeGreaterThan(50);
    expect(traces[0]).toEqual(traces[1]);
  }
});

/**
 * Workers that are broken on purpose. For each: the invariant that must notice it, and the fault that it
 * needs, if any.
 */
const BROKEN: readonly (readonly [string, string, Sabotage, Fault | null])[] = [
  [
    'commits an offset too far',
    'I2',
    { source: (source) => committing(source, (offset) => offset + 1) },
    null,
  ],
  [
    'answers without deciding',
    'I6',
    {
      ledger: (ledger) => ({
        ...ledger,
        decideBatch: async ({ items }) => ({
          decisions: items.map(() => ({ type: 'unstored', deadLetter: null, redelivered: false })),
          facts: null,
        }),
      }),
    },
    null,
  ],
  [
    'changes the content of a single event',
    'rules',
    {
      ledger: (ledger) => ({
        ...ledger,
        async decideBatch(batch) {
          const isOne = batch.items.length === 1 && batch.items[0]?.type === 'keyed';
          const items = batch.items.map((item) =>
            item.type === 'keyed' && isOne
              ? { ...item, contentHash: contentHashOf(item) + 1, restHash: item.restHash ^ 1 }
              : item,
          );
          return ledger.decideBatch({ ...batch, items });
        },
      }),
    },
    null,
  ],
  [
    'treats a general refusal of the store as a fault of the event',
    'V9',
    {
      ledger: (ledger) => ({
        ...ledger,
        decideBatch: (batch) =>
          ledger.decideBatch(batch).catch((error: unknown) => {
            throw error instanceof StoreError && error.sqlState === '42501' ? new TypeError() : error;
          }),
      }),
    },
    'permission denied',
  ],
  ['decides a record of a partition that its transaction does not lock', 'D2', { ledger: spanning }, null],
  [
    'waits half as long as it logs',
    'I10',
    { clock: (clock) => ({ ...clock, sleep: (ms, signal) => clock.sleep(ms / 2, signal) }) },
    null,
  ],
  [
    'forgets the verdicts that the topic of one operator did not take',
    'S7',
    { publish: forgetful },
    'refused',
  ],
  [
    'answers the events of a request in another order',
    'W5',
    {
      requests: (intake) => ({
        async decideRequest(origin, envelopes) {
          const { answers, undecided } = await intake.decideRequest(origin, envelopes);
          return { answers: answers.toReversed(), undecided };
        },
      }),
    },
    null,
  ],
];

/** Adds an event of the previous partition to each batch, under another id. */
function spanning(ledger: Ledger): Ledger {
  let before: KeyedItem | undefined;
  return {
    ...ledger,
    async decideBatch(batch) {
      const keyed = batch.items.find((item) => item.type === 'keyed');
      const isOther = before?.source?.partitionNo !== keyed?.source?.partitionNo;
      const others =
        before !== undefined && isOther ? [{ ...before, eventId: `${before.eventId}-again` }] : [];
      before = keyed ?? before;
      const count = batch.items.length;
      const { decisions, facts } = await ledger.decideBatch({
        ...batch,
        items: [...batch.items, ...others],
      });
      return { decisions: decisions.slice(0, count), facts };
    },
  };
}

/** Takes a failure of some topics for a success of all. */
function forgetful(publish: PublishVerdicts<Origin>): PublishVerdicts<Origin> {
  return (origin, answers) =>
    publish(origin, answers).catch((error: unknown) => {
      if (!(error instanceof NotAllPublished)) throw error;
    });
}

function committing(source: RecordSource, change: (offset: number) => number): RecordSource {
  return {
    ...source,
    commit: (offsets) => source.commit(offsets.map((each) => ({ ...each, offset: change(each.offset) }))),
  };
}

describe('a worker that', () => {
  test.each(BROKEN)('%s is noticed (%s)', async (_, invariant, sabotage, fault) => {
    for (const seed of firstSeeds(60, fault)) {
      const { problem } = await simulate(makePlan(seed), new Coverage(), { sabotage });
      if (problem?.startsWith(`${invariant}:`) !== true) continue;
      const least = await shrink(seed, problem, sabotage);
      expect(least.outcome.problem).toContain(`${invariant}:`);
      expect(least.outcome.steps).toBeGreaterThan(0);
      return;
    }
    throw new Error(`60 seeds broke nothing of ${invariant}`);
  });
});
