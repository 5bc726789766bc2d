/** The rate with many keys stored beforehand, for ids in the order of time and for random ids (P4). */
import { makeFeed, SEED, USUAL_SHAPE } from '../feed';
import type { Bench, Mode } from '../mode';
import { settingsText } from '../postgres-settings';
import { publish } from '../publish';
import type { Goal } from '../result';
import { drain, type Run, rateOf, recordOf } from '../runs';
import { checkpoint, type Settings } from '../stage';
import { median } from '../statistics';
import { type IdKind, indexMemory, storeKeys } from '../stored-keys';
import { figure, times } from '../table';

const KINDS: readonly IdKind[] = ['time-ordered', 'random'];
const GOALS: Record<IdKind, number> = { 'time-ordered': 0.9, random: 0.6 };

/** The default shared_buffers of Postgres, in MiB. */
const USUAL_BUFFERS = 128;

/**
 * Checkpoints come by time alone. After a checkpoint, the first change of a page writes the whole page to the
 * log. With random ids, each of the first million or so events does so. So one run comes right after a
 * checkpoint and is shown apart. The others come later, as do nearly all events of half an hour.
 */
const ROOM_FOR_LOG: Settings = { max_wal_size: '32GB', checkpoint_timeout: '30min' };
const AFTER_CHECKPOINT = 0;

interface Entry {
  readonly kind: IdKind;
  readonly stored: number;
  readonly round: number;
  readonly run: Run;
  /**
   * The same feed into empty tables, right before or after this run: the machine's speed changes during the
   * minutes that the keys take.
   */
  readonly beside: Run;
  /** Size of the indexes of keys and rounds. */
  readonly indexMib: number;
}

export const keys: Mode = {
  name: 'keys',
  about: 'rate by the number of keys stored before, with their rounds, for time-ordered and for random ids',
  ownPostgres: true,
  extent: {
    events: 400_000,
    rounds: 2,
    stored: [5_000_000, 20_000_000],
    buffers: USUAL_BUFFERS,
  },
  async run(bench) {
    const sizes = sizesOf(bench.extent.numbers('stored'));
    const buffers = bench.extent.number('buffers');
    const byTime = buffers !== USUAL_BUFFERS;
    const settings = { shared_buffers: `${buffers}MB`, ...(byTime && ROOM_FOR_LOG) };
    await bench.stage.restartPostgres(settings);
    const all: Entry[] = [];
    for (const kind of KINDS) all.push(...(await measureKind(bench, kind, sizes, byTime)));
    const entries = all.filter(({ round }) => round !== AFTER_CHECKPOINT);
    const entriesOf = (kind: IdKind, stored?: number) =>
      entries.filter((each) => each.kind === kind && (stored ?? each.stored) === each.stored);
    const rate = (kind: IdKind, stored: number) =>
      median(entriesOf(kind, stored).map(({ run }) => rateOf(run)));
    const emptyRate = (kind: IdKind) => median(entriesOf(kind).map(({ beside }) => rateOf(beside)));
    const share = (kind: IdKind, stored: number) =>
      median(entriesOf(kind, stored).map(({ run, beside }) => rateOf(run) / rateOf(beside)));
    const { sharedMib } = await indexMemory(bench.stage.serverUrl);
    const indexMib = (kind: IdKind, stored: number) =>
      Math.max(...entriesOf(kind, stored).map((each) => each.indexMib));
    const afterCheckpoint = (kind: IdKind, stored: number) =>
      all
        .filter((each) => each.kind === kind && each.stored === stored && each.round === AFTER_CHECKPOINT)
        .map(({ run, beside }) => times(rateOf(run) / rateOf(beside)));
    return {
      table: {
        columns: [
          'keys stored',
          ...KINDS.flatMap((kind) => [
            `${kind}: events/s`,
            'x empty',
            ...(byTime ? ['x after a checkpoint'] : []),
            'index MiB',
          ]),
        ],
        rows: [
          [
            '0',
            ...KINDS.flatMap((kind) => [figure(emptyRate(kind)), times(1), ...(byTime ? ['-'] : []), '-']),
          ],
          ...sizes.map((stored) => [
            figure(stored),
            ...KINDS.flatMap((kind) => [
              figure(rate(kind, stored)),
              times(share(kind, stored)),
              ...afterCheckpoint(kind, stored),
              figure(indexMib(kind, stored)),
            ]),
          ]),
        ],
        notes: [
          `Medians. Ratios are to the empty tables of the same round. The keys of the runs themselves come on top. Postgres has ${figure(sharedMib)} MiB of shared_buffers.`,
        ],
      },
      goals: KINDS.flatMap((kind) =>
        sizes
          .filter((stored) => kind !== 'random' || indexMib(kind, stored) <= sharedMib)
          .map((stored) => goalOf(kind, stored, share(kind, stored))),
      ),
      ...(byTime && {
        variant: 'more-memory',
        settings: [`Postgres restarted with ${settingsText(settings)}`],
      }),
      runs: all.flatMap(({ kind, stored, round, indexMib, run, beside }) => [
        { ids: kind, stored, round, index_mib: indexMib, ...recordOf('worker', run) },
        { ids: kind, stored: 0, round, beside: stored, ...recordOf('worker', beside) },
      ]),
    };
  },
};

/**
 * Sorts the sizes in ascending order.
 *
 * @throws RangeError for no keys at all: empty tables are measured beside each size
 */
function sizesOf(stored: readonly number[]): number[] {
  const sizes = [...new Set(stored)].sort((a, b) => a - b);
  if (sizes.some((size) => size < 1))
    throw new RangeError('BENCH_STORED: numbers above 0; runs into empty tables come by themselves');
  return sizes;
}

/**
 * All runs share one database that grows. Each run has a feed of its own with new ids.
 *
 * @param byTime true: one checkpoint before the first run of a size; false: one before each run
 */
async function measureKind(
  { stage, extent, say }: Bench,
  kind: IdKind,
  sizes: readonly number[],
  byTime: boolean,
): Promise<Entry[]> {
  const [events, rounds] = [extent.number('events'), extent.number('rounds')];
  const topic = await stage.makeTopic();
  // One consumer group for all runs: each run reads the records published since the run before.
  const groupId = stage.newGroup();
  const entries: Entry[] = [];
  /** Dropped only at the end, since dropping a database is a checkpoint. */
  const emptyUrls: string[] = [];
  await stage.withDatabase([topic], async (databaseUrl) => {
    let there = 0;
    // A feed has a millisecond for each event, which is more time than deciding the event takes. Ids stay in
    // the order of time only if each feed begins where the one before ended.
    let nextStart = 0;
    for (const stored of sizes) {
      await storeKeys(databaseUrl, kind, there, stored, say);
      there = stored;
      if (byTime) await checkpoint(databaseUrl);
      const prepare = byTime ? { prepare: async () => {} } : {};
      for (let round = byTime ? AFTER_CHECKPOINT : 1; round <= rounds; round++) {
        const newFeed = () => {
          const start = Math.max(Date.now(), nextStart);
          nextStart = start + events;
          return makeFeed({ ...USUAL_SHAPE, events, ids: kind }, SEED, start);
        };
        const intoStored = async () => {
          const { records } = await publish(stage.brokers, topic, newFeed());
          return drain(stage, { databaseUrl, topic, records, groupId, ...prepare });
        };
        const intoEmpty = async () => {
          const own = await stage.makeTopic();
          const { records } = await publish(stage.brokers, own, newFeed());
          const emptyUrl = await stage.makeDatabase(own);
          emptyUrls.push(emptyUrl);
          const course = {
            databaseUrl: emptyUrl,
            topic: own,
            records,
            groupId: stage.newGroup(),
            ...prepare,
          };
          const run = await drain(stage, course);
          await stage.removeTopic(own);
          return run;
        };
        const before = round % 2 === 1 ? await intoEmpty() : null;
        const run = await intoStored();
        const beside = before ?? (await intoEmpty());
        say(
          `${kind} ids, ${figure(stored)} keys, round ${round} of ${rounds}: ${figure(rateOf(run))} events/s, beside empty tables ${figure(rateOf(beside))}`,
        );
        const { indexMib } = await indexMemory(databaseUrl);
        entries.push({ kind, stored, round, run, beside, indexMib });
      }
    }
  });
  await stage.removeTopic(topic);
  for (const url of emptyUrls) await stage.dropDatabase(url);
  return entries;
}

function goalOf(kind: IdKind, stored: number, share: number): Goal {
  return {
    id: 'P4',
    goal: `${figure(stored)} keys, ${kind} ids: >= ${GOALS[kind].toFixed(1)} x the empty table`,
    measured: `${times(share)} x`,
    met: Number.isFinite(share) ? share >= GOALS[kind] : null,
  };
}
