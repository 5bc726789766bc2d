/**
 * Comparing a file of up to a million events with the verdicts: time, and memory by the size of the file. The
 * command asks the database, or the webhook by signed HTTP.
 */
import { randomBytes } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { isObject } from '../../../src/lib/json';
import { type FeedMessage, makeFeed, USUAL_SHAPE } from '../feed';
import { watchProcess } from '../measure';
import type { Bench, Mode } from '../mode';
import { publish } from '../publish';
import { checkpoint, type Settings, type Stage } from '../stage';
import { rounded } from '../statistics';
import { figure } from '../table';

const GOAL_SECONDS = 60;
/** The limit for "flat": the highest memory with the largest file, compared with that of the smallest. */
const FLAT = 1.1;
const DRAIN_DEADLINE_MS = 600_000;
const DEADLINE_MS = 300_000;
/** The command ends with this code where an event has to be corrected, as 1 % of the feed. */
const TO_DO = 1;
const START_MS = 30_000;
const READY = /"port":(\d+),"connections"/;
const CONNECTION = 'bench-stream-0';
const CSV_HEAD = 'event_id,kind,occurred_at\n';
const PIECE_CHARS = 1024 ** 2;
const FORMS = ['ids', 'events'] as const;
type Form = (typeof FORMS)[number];
const NAMES: Readonly<Record<Form, string>> = { ids: 'ids.csv', events: 'events.ndjson' };
const WAYS = ['database', 'HTTP'] as const;
type Way = (typeof WAYS)[number];

interface Asked {
  readonly seconds: number;
  /** Highest memory of the command. */
  readonly rss: number;
  /** Highest memory of the webhook; null where the database is asked. */
  readonly webhookRss: number | null;
}

interface Entry extends Asked {
  readonly form: Form;
  readonly way: Way;
  readonly lines: number;
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
    const goals = WAYS.flatMap((way) =>
      FORMS.flatMap((form) => {
        const of = (lines: number) =>
          entries.find((each) => each.form === form && each.way === way && each.lines === lines);
        const [most, least] = [of(largest), of(smallest)];
        const seconds = most?.seconds ?? Number.NaN;
        const by = way === 'HTTP' ? ' by HTTP' : '';
        const flat = (of: string, pick: (entry?: Entry) => number | null | undefined) => {
          const growth = (pick(most) ?? Number.NaN) / (pick(least) ?? Number.NaN);
          return {
            id: 'reconcile',
            goal: `memory${of} with ${figure(largest)} ${form}${by} <= ${FLAT} x that with ${figure(smallest)}`,
            measured: `${figure(growth, 2)} x`,
            met: growth <= FLAT,
          };
        };
        return [
          {
            id: 'reconcile',
            goal: `file of ${figure(largest)} ${form} compared${by} in < ${GOAL_SECONDS} s`,
            measured: `${figure(seconds, 1)} s`,
            met: seconds < GOAL_SECONDS,
          },
          flat('', (entry) => entry?.rss),
          ...(way === 'HTTP' ? [flat(' of the webhook', (entry) => entry?.webhookRss)] : []),
        ];
      }),
    );
    return {
      table: {
        columns: [
          ...['lines of the file', 'each line', 'asked', 's', 'lines/s', 'highest RSS, MiB'],
          'highest RSS of the webhook, MiB',
        ],
        rows: entries.map(({ form, way, lines, seconds, rss, webhookRss }) => [
          ...[figure(lines), form === 'ids' ? 'an id, kind and time (CSV)' : 'a whole event'],
          way === 'HTTP' ? 'the webhook' : 'the database',
          ...[figure(seconds, 1), figure(Math.round(lines / seconds)), figure(rss, 1)],
          webhookRss === null ? '' : figure(webhookRss, 1),
        ]),
        notes: [
          'The whole command, with its start. Each id is random, and the store has all events of the largest file. A webhook is new for each file.',
        ],
      },
      goals,
      runs: entries.map(({ form, way, lines, seconds, rss, webhookRss }) => ({
        form,
        way,
        lines,
        seconds,
        rss_mib: rss,
        webhook_rss_mib: webhookRss,
      })),
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
      for (const way of WAYS) {
        const asked = await ask(stage, { way, path, lines, databaseUrl });
        say(`${figure(lines)} ${form} by ${way}: ${figure(asked.seconds, 1)} s, ${figure(asked.rss, 1)} MiB`);
        entries.push({ form, way, lines, ...asked });
      }
    }
    return entries;
  });
}

interface Question {
  readonly way: Way;
  readonly path: string;
  readonly lines: number;
  readonly databaseUrl: string;
}

async function ask(stage: Stage, { way, path, lines, databaseUrl }: Question): Promise<Asked> {
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const secrets = { WEBHOOK_SECRETS: JSON.stringify({ [CONNECTION]: secret }) };
  const args = ['reconcile', path, '--connection', CONNECTION];
  if (way === 'database')
    return { ...(await compare(stage, args, { DATABASE_URL: databaseUrl }, lines)), webhookRss: null };
  const webhook = stage.startWebhook('', { DATABASE_URL: databaseUrl, ...secrets });
  await webhook.untilLogged(READY, START_MS);
  const watch = watchProcess(webhook.pid ?? 0);
  const url = `http://127.0.0.1:${READY.exec(webhook.output())?.[1]}`;
  const compared = await compare(stage, [...args, '--url', url], secrets, lines);
  const webhookRss = watch.stop().peakRssMib;
  await webhook.stop();
  return { ...compared, webhookRss };
}

async function compare(stage: Stage, args: readonly string[], settings: Settings, lines: number) {
  const began = performance.now();
  const command = stage.start(args, settings);
  const watch = watchProcess(command.pid ?? 0);
  await command.untilDone(DEADLINE_MS, TO_DO);
  const seconds = (performance.now() - began) / 1000;
  const rss = watch.stop().peakRssMib;
  if (!command.output().includes(`${figure(lines)} events: `))
    throw command.failure(`did not compare ${figure(lines)} events`);
  return { seconds: rounded(seconds, 2), rss };
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
