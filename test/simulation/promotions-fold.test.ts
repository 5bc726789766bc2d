/**
 * Many seeds of the processes that count promotions. They are the same each time. FOLD_SEEDS is their number,
 * and FOLD_SEED the only one: it prints its trace.
 */
import { inRun } from '../../dev/long-run';
import type { Results } from '../../src/fold/fold';
import type { Session } from '../../src/postgres/transaction';
import { FOLD_PAIRS, FoldCoverage } from './fold-faults';
import { type FoldRun, playFold } from './fold-world';

const { FOLD_SEED } = process.env;
const SEEDS = Number(process.env.FOLD_SEEDS ?? FOLD_PAIRS.length);
/**
 * A usual run plays each seventh seed. So each await meets one or two of the ten faults, and each fault a
 * seventh of the awaits.
 */
const STEP = inRun({ usual: 7, long: 1, variable: 'FOLD_STEP' });
const FIRST_SEEDS = 40;
/** Further runs for a pair of await and fault that its own seed has not brought about. */
const RUNS_FOR_A_PAIR = 40;

jest.setTimeout(300_000 + SEEDS * 1_000);

const ofAllSeeds = FOLD_SEED === undefined ? test : test.skip;
const ofOneSeed = FOLD_SEED === undefined ? test.skip : test;

const EVENTS = [
  ...['a completion was confirmed', 'a completion was revoked', 'a generation replaced another'],
  ...['a leaderboard closed', 'a month was dropped', 'a player was erased', 'a promotion was added'],
  ...['an erasure took rounds from players', 'rounds were attributed'],
  ...['rows of another store came', 'somebody counted again', 'the store lost slices'],
];

/** Plays seeds until one of them has a problem. */
async function play(seeds: Iterable<number>, take: (run: FoldRun) => void, coverage = new FoldCoverage()) {
  for (const seed of seeds) {
    const run = await playFold(seed, coverage);
    take(run);
    if (run.problems.length > 0) return;
  }
}

function* seedsFrom(first: number, count: number, step = 1): Generator<number> {
  for (let seed = first; seed < first + count; seed += step) yield seed;
}

ofAllSeeds(
  'the first seeds count each verdict once, and give completions the ids of the ledger [L5] [P12] [P16]',
  async () => {
    const problems: string[] = [];
    await play(seedsFrom(1, FIRST_SEEDS), (run) => problems.push(...run.problems));
    expect(problems).toEqual([]);
  },
);

ofAllSeeds(
  'no fault at an await counts a verdict twice, leaves one out, or changes the id of a completion [L5] [P12] [P14] [P15] [P16]',
  async () => {
    const coverage = new FoldCoverage();
    const events = new Set<string>();
    const problems: string[] = [];
    const take = (run: FoldRun) => {
      problems.push(...run.problems);
      for (const event of run.events) events.add(event);
    };
    const missing = () => coverage.missing().filter((place) => place % STEP === 0);
    await play(seedsFrom(STEP, SEEDS, STEP), take, coverage);
    for (const place of SEEDS < FOLD_PAIRS.length ? [] : missing())
      for (let run = 1; run <= RUNS_FOR_A_PAIR && missing().includes(place); run++)
        if (problems.length === 0) await play([place + run * FOLD_PAIRS.length], take, coverage);
    expect(problems).toEqual([]);
    if (SEEDS < FOLD_PAIRS.length) return;
    // Otherwise the seeds prove less than they seem to.
    expect(missing().map((place) => FOLD_PAIRS[place]?.join(' / '))).toEqual([]);
    expect([...events].sort()).toEqual(EVENTS);
  },
);

ofOneSeed('one seed, with its trace', async () => {
  const run = await playFold(Number(FOLD_SEED), new FoldCoverage(), { isTraced: true });
  process.stdout.write(`${run.trace.join('\n')}\n`);
  expect(run.problems).toEqual([]);
});

ofAllSeeds('the same seed of a fold takes the same steps', async () => {
  for (const seed of [3, 17, 400]) {
    const [first, second] = [
      await playFold(seed, new FoldCoverage(), { isTraced: true }),
      await playFold(seed, new FoldCoverage(), { isTraced: true }),
    ];
    expect(first.trace.length).toBeGreaterThan(100);
    expect(first.trace).toEqual(second.trace);
  }
});

/** Results whose statement of this name is answered with no rows, and does nothing. */
function without(name: string, results: Results): Results {
  const deaf = (session: Session): Session => ({
    query: async (statement, values) => (statement.name === name ? [] : session.query(statement, values)),
    write: (writes) => session.write(writes),
    writeAndCommit: (writes) => session.writeAndCommit(writes),
  });
  return {
    ...results,
    fold: (session, slice) => results.fold(deaf(session), slice),
    updateByTime: async (session, generation, now) =>
      (await results.updateByTime?.(deaf(session), generation, now)) ?? null,
  };
}

const BROKEN: readonly (readonly [string, (results: Results) => Results])[] = [
  [
    'counts each slice twice',
    (results) => ({
      ...results,
      async fold(session, slice) {
        await results.fold(session, slice);
        return results.fold(session, slice);
      },
    }),
  ],
  [
    'leaves the first batch of a slice out',
    (results) => ({
      ...results,
      fold: (session, slice) => results.fold(session, { ...slice, after: slice.after + 8_192 }),
    }),
  ],
  [
    'enters completions that nobody sees yet',
    (results) => ({
      ...results,
      fold: (session, slice) => results.fold(session, { ...slice, isShown: true }),
    }),
  ],
  [
    'shows a generation without the difference',
    (results) => ({ ...results, keepOlder: async () => undefined }),
  ],
  [
    'does not judge the progress that an erasure has joined',
    (results) => without('promotions_take_joined', results),
  ],
  [
    'shows a generation without the events of a dropped month',
    (results) => ({
      ...results,
      keepOlder: (session, from, to) => results.keepOlder(session, from, to, '-infinity'),
    }),
  ],
];

/** A month is dropped in few seeds. */
const BROKEN_SEEDS = 300;

describe('a fold that', () => {
  test.each(BROKEN)('%s is noticed', async (_, sabotage) => {
    for (const seed of seedsFrom(1, BROKEN_SEEDS)) {
      const { problems } = await playFold(seed, new FoldCoverage(), { sabotage });
      if (problems.length > 0) return;
    }
    throw new Error(`${BROKEN_SEEDS} seeds noticed nothing`);
  });
});
