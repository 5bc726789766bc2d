/** The cost of the verdict stream (P12), and of a topic for each of many operators. */
import { makeFeed, sharedOut, USUAL_SHAPE } from '../feed';
import type { Bench, Mode } from '../mode';
import { type Published, publish } from '../publish';
import { drain, drainAfresh, inTurns, type Run, rateOf, recordOf } from '../runs';
import { PARTITIONS, referenceOfOperators } from '../stage';
import { median } from '../statistics';
import { figure, times } from '../table';
import { publishUsual } from '../usual';

const LEAST_SHARE = 0.75;
/** The rate of a topic each, as a share of the rate of one topic. Runs of one kind differ by as much. */
const LEAST_SHARE_OF_ONE = 0.95;
const NAMES = ['without', 'with', 'one of many operators', 'one each'] as const;
type Name = (typeof NAMES)[number];

export const stream: Mode = {
  name: 'stream',
  about: 'rate with and without VERDICT_TOPIC, and with a topic for each of many operators',
  extent: { events: 250_000, rounds: 3, operators: 200 },
  async run(bench) {
    const { extent, say } = bench;
    const [rounds, operators] = [extent.number('rounds'), extent.number('operators')];
    const feeds = {
      ofOne: await publishUsual(bench, extent.number('events')),
      shared: await publishShared(bench),
    };
    const runs: Record<Name, Run[]> = { without: [], with: [], 'one of many operators': [], 'one each': [] };
    for (let round = 1; round <= rounds; round++) {
      for (const name of inTurns(NAMES, round)) {
        const run = await runOf(bench, name, feeds);
        runs[name].push(run);
        say(`round ${round} of ${rounds}: ${titleOf(name, operators)}: ${figure(rateOf(run))} events/s`);
      }
    }
    const rate = (name: Name) => median(runs[name].map(rateOf));
    const cpu = (name: Name) =>
      median(runs[name].map(({ cpuSeconds, events }) => (cpuSeconds / events) * 100_000));
    const share = rate('with') / rate('without');
    const shareOfOne = rate('one each') / rate('one of many operators');
    return {
      table: {
        columns: ['verdict topic', 'events/s', 'x without', 'CPU s', 'RSS MiB'],
        rows: NAMES.map((name) => [
          titleOf(name, operators),
          figure(rate(name)),
          times(rate(name) / rate('without')),
          times(cpu(name)),
          figure(median(runs[name].map(({ peakRssMib }) => peakRssMib))),
        ]),
        notes: ['Medians. CPU of the worker in seconds for 100,000 events.'],
      },
      goals: [
        {
          id: 'P12',
          goal: `the verdict stream costs <= ${Math.round((1 - LEAST_SHARE) * 100)} % of the rate`,
          measured: `${figure((1 - share) * 100, 1)} %`,
          met: share >= LEAST_SHARE,
        },
        {
          id: 'P12',
          goal: `a verdict topic for each of ${operators} operators costs no more than one: >= ${LEAST_SHARE_OF_ONE} times the rate`,
          measured: `${times(shareOfOne)} times, with ${times(cpu('one each') / cpu('one of many operators'))} times the CPU`,
          met: shareOfOne >= LEAST_SHARE_OF_ONE,
        },
      ],
      runs: NAMES.flatMap((name) =>
        runs[name].map((run) => ({ verdict_topic: titleOf(name, operators), ...recordOf('worker', run) })),
      ),
    };
  },
};

function titleOf(name: Name, operators: number): string {
  if (name === 'one each') return `one each, ${operators} operators`;
  return name === 'one of many operators' ? `with, ${operators} operators` : name;
}

const idsOf = (operators: number) => Array.from({ length: operators }, (_, index) => `operator-${index}`);

/** The usual feed, shared out among the operators in one topic. */
async function publishShared({ stage, extent, say }: Bench): Promise<Published> {
  const events = extent.number('events');
  const operators = extent.number('operators');
  say(`publishing ${figure(events)} records of ${operators} operators`);
  const feed = sharedOut(makeFeed({ ...USUAL_SHAPE, events }), operators);
  return publish(stage.brokers, await stage.makeTopic(), feed, say);
}

interface Feeds {
  readonly ofOne: Published;
  readonly shared: Published;
}

async function runOf({ stage, extent }: Bench, name: Name, { ofOne, shared }: Feeds): Promise<Run> {
  if (name === 'without') return drainAfresh(stage, ofOne);
  const verdicts = stage.newTopic();
  const isEach = name === 'one each';
  const topics = isEach ? idsOf(extent.number('operators')).map((id) => `${verdicts}.${id}`) : [verdicts];
  await stage.makeUsedTopics(topics, isEach ? 1 : PARTITIONS);
  const settings = { VERDICT_TOPIC: isEach ? `${verdicts}.{operator}` : verdicts };
  const run = await (name === 'with'
    ? drainAfresh(stage, ofOne, settings)
    : stage.withDatabaseOf(
        referenceOfOperators(idsOf(extent.number('operators')), shared.topic),
        (databaseUrl) => drain(stage, { databaseUrl, ...shared, groupId: stage.newGroup(), settings }),
      ));
  await stage.removeTopic(...topics);
  return run;
}
