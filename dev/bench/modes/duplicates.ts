/** The cost of resends and redeliveries, by their share of the feed (P5). */
import { type FeedMessage, makeFeed, mixResends, USUAL_SHAPE } from '../feed';
import type { Bench, Mode } from '../mode';
import { type Published, publish } from '../publish';
import { drain, type Run, rateOf, recordOf } from '../runs';
import { median } from '../statistics';
import { figure, times } from '../table';

const USUAL_SHARE = 5;
const RESENDS_GOAL = 1.0;
const REDELIVERIES_GOAL = 1.3;

/** The records of a run: resends by their share in percent, or records that had been read before. */
type What = number | 'redeliveries';

interface Entry {
  readonly what: What;
  readonly run: Run;
}

interface Course {
  readonly originals: Published;
  readonly mixed: readonly { readonly share: number; readonly published: Published }[];
}

export const duplicates: Mode = {
  name: 'duplicates',
  about: 'rate by the share of resends, and of redeliveries',
  extent: { events: 150_000, rounds: 3, shares: [0, 5, 25, 50, 75, 100] },
  async run(bench) {
    const [rounds, shares] = [bench.extent.number('rounds'), bench.extent.numbers('shares')];
    const course = await publishCourse(bench, shares);
    const entries: Entry[] = [];
    for (let round = 1; round <= rounds; round++) {
      bench.say(`round ${round} of ${rounds}`);
      entries.push(...(await runRound(bench, course)));
    }
    const rate = (what: What) =>
      median(entries.filter((entry) => entry.what === what).map(({ run }) => rateOf(run)));
    const usual = rate(USUAL_SHARE);
    const goal = (what: What, name: string, least: number) => ({
      id: 'P5',
      goal: `${name} >= ${least.toFixed(1)} x the usual rate`,
      measured: `${times(rate(what) / usual)} x`,
      met: Number.isFinite(rate(what) / usual) ? rate(what) / usual >= least : null,
    });
    return {
      table: {
        columns: ['read', 'events/s', 'x usual'],
        rows: [...shares, 'redeliveries' as const].map((what) => [
          typeof what === 'number' ? `${what} % resends` : 'redeliveries only',
          figure(rate(what)),
          times(rate(what) / usual),
        ]),
        notes: [
          `Medians. Resends come in the order of the first records. The usual rate is the one with ${USUAL_SHARE} % resends.`,
        ],
      },
      goals: [
        goal(100, 'resends only', RESENDS_GOAL),
        goal('redeliveries', 'redeliveries only', REDELIVERIES_GOAL),
      ],
      runs: entries.map(({ what, run }) => ({ read: what, ...recordOf('worker', run) })),
    };
  },
};

async function publishCourse({ stage, extent, say }: Bench, shares: readonly number[]): Promise<Course> {
  const shape = { ...USUAL_SHAPE, resendShare: 0, events: extent.number('events') };
  const put = async (feed: Iterable<FeedMessage>) => publish(stage.brokers, await stage.makeTopic(), feed);
  const before = [...makeFeed(shape)];
  const originals = await put(before);
  const mixed: { share: number; published: Published }[] = [];
  for (const share of shares) {
    say(`publishing ${figure(shape.events)} records, ${share} % of them resends`);
    mixed.push({ share, published: await put(mixResends(makeFeed(shape), before, share / 100)) });
  }
  return { originals, mixed };
}

/**
 * All runs share one database: first the originals of later resends, then each share, then the usual share
 * once more.
 */
async function runRound({ stage, say }: Bench, { originals, mixed }: Course): Promise<Entry[]> {
  const topics = [originals, ...mixed.map(({ published }) => published)].map(({ topic }) => topic);
  return stage.withDatabase(topics, async (databaseUrl) => {
    const decideAll = ({ topic, records }: Published) =>
      drain(stage, { databaseUrl, topic, records, groupId: stage.newGroup() });
    await decideAll(originals);
    const entries: Entry[] = [];
    const note = (what: What, run: Run) => {
      entries.push({ what, run });
      const name = typeof what === 'number' ? `${what} % resends` : what;
      say(`${name}: ${figure(rateOf(run))} events/s`);
    };
    for (const { share, published } of mixed) note(share, await decideAll(published));
    const usual = mixed.find(({ share }) => share === USUAL_SHARE) ?? mixed[0];
    if (usual !== undefined) note('redeliveries', await decideAll(usual.published));
    return entries;
  });
}
