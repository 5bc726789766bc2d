/** Comparing a file of up to a million events with the verdicts: time, and memory by the size of the file. */
import { appendFileSync } from 'node:fs';
import { isObject } from '../../../src/lib/json';
import { type FeedMessage, makeFeed, USUAL_SHAPE } from '../feed';
import { watchProcess } from '../measure';
import type { Bench, Mode } from '../mode';
import { publish } from '../publish';
import { checkpoint } from '../stage';
import { rounded } from '../statistics';
import { figure } from '../table';

const GOAL_SECONDS = 60;
/** The limit for "flat": the highest memory with the largest file, compared with that of the smallest. */
const FLAT = 1.1;
const DRAIN_DEADLINE_MS = 600_000;
const DEADLINE_MS = 300_000;
/** The command ends with this code where an event has to be corrected, as 1 % of the feed. */
const TO_DO = 1;
const CONNECTION = 'bench-stream-0';
const CSV_HEAD = 'event_id,kind,occurred_at\n';
const PIECE_CHARS = 1024 ** 2;
const FORMS = ['ids', 'events'] as const;
type Form = (typeof FORMS)[number];
const NAMES: Readonly<Record<Form, string>> = { ids: 'ids.csv', events: 'events.ndjson' };

interface Entry {
  readonly form: Form;
  readonly lines: number;
  readonly seconds: number;
  readonly rss: number;
}

export const reconcile: Mode = {
  name: 'reconcile',
  about: 'time and memory of comparing a file of up to a million events with their verdicts',
  extent: { sizes: [250_000, 1_000_000] },
  async run(bench) {
    const sizes = bench.extent.numbers('sizes');
    const entries = await measureFiles(bench, sizes);
    const largest = Math.max(...sizes);
    const smallest = Math.min(...sizes);
    const goals = FORMS.flatMap((form) => {
      const of = (lines: number) => entries.find((each) => each.form === form && each.lines === lines);
      const { seconds = Number.NaN, rss = Number.NaN } = of(largest) ?? {};
      const growth = rss / (of(smallest)?.rss ?? Number.NaN);
      return [
        {
          id: 'reconcile',
          goal: `file of ${figure(largest)} ${form} compared in < ${GOAL_SECONDS} s`,
          measured: `${figure(seconds, 1)} s`,
          met: seconds < GOAL_SECONDS,
        },
        {
          id: 'reconcile',
          goal: `memory with ${figure(largest)} ${form} <= ${FLAT} x that with ${figure(smallest)}`,
          measured: `${figure(growth, 2)} x`,
          met: growth <= FLAT,
        },
      ];
    });
    return {
      table: {
        columns: ['lines of the file', 'each line', 's', 'lines/s', 'highest RSS, MiB'],
        rows: entries.map(({ form, lines, seconds, rss }) => [
          ...[figure(lines), form === 'ids' ? 'an id, kind and time (CSV)' : 'a whole event'],
          ...[figure(seconds, 1), figure(Math.round(lines / seconds)), figure(rss, 1)],
        ]),
        notes: [
          'The whole command, with its start. Each id is random, and the store has all events of the largest file.',
        ],
      },
      goals,
      runs: entries.map(({ form, lines, seconds, rss }) => ({ form, lines, seconds, rss_mib: rss })),
    };
  },
};

async function measureFiles({ stage, say }: Bench, sizes: readonly number[]): Promise<Entry[]> {
  const topic = await stage.makeTopic();
  return stage.withDatabase([topic], async (databaseUrl) => {
    const events = Math.max(...sizes);
    const files = FORMS.flatMap((form) =>
      sizes.map((lines) => ({ form, lines, path: stage.file(NAMES[form]) })),
    );
    const feed = makeFeed({ ...USUAL_SHAPE, events, ids: 'random', resendShare: 0 });
    await publish(stage.brokers, topic, written(feed, files), say);
    const settings = { DATABASE_URL: databaseUrl, KAFKA_GROUP_ID: stage.newGroup(), KAFKA_TOPICS: topic };
    await stage.startWorker(['--drain'], settings).untilDone(DRAIN_DEADLINE_MS);
    await checkpoint(databaseUrl);
    const entries: Entry[] = [];
    for (const { form, lines, path } of files) {
      const began = performance.now();
      const command = stage.start(['reconcile', path, '--connection', CONNECTION], settings);
      const watch = watchProcess(command.pid ?? 0);
      await command.untilDone(DEADLINE_MS, TO_DO);
      const seconds = (performance.now() - began) / 1000;
      const rss = watch.stop().peakRssMib;
      if (!command.output().includes(`${figure(lines)} events: `))
        throw command.failure(`did not compare ${figure(lines)} events`);
      say(`${figure(lines)} ${form}: ${figure(seconds, 1)} s, ${figure(rss, 1)} MiB`);
      entries.push({ form, lines, seconds: rounded(seconds, 2), rss });
    }
    return entries;
  });
}

/** Writes the messages to the files while they are published. A shorter file has the first of them. */
function* written(
  feed: Iterable<FeedMessage>,
  files: readonly { readonly form: Form; readonly lines: number; readonly path: string }[],
): Generator<FeedMessage> {
  const outputs = files.map((file) => ({ ...file, text: file.form === 'ids' ? CSV_HEAD : '' }));
  let made = 0;
  for (const message of feed) {
    made++;
    for (const output of outputs) {
      if (made > output.lines) continue;
      output.text += `${output.form === 'ids' ? csvOf(message.value) : message.value}\n`;
      if (output.text.length < PIECE_CHARS && made < output.lines) continue;
      appendFileSync(output.path, output.text);
      output.text = '';
    }
    yield message;
  }
}

function csvOf(value: string): string {
  const event: unknown = JSON.parse(value);
  if (!isObject(event)) throw new Error('an event of the feed is no object');
  return [event.event_id, event.kind, event.occurred_at].join();
}
