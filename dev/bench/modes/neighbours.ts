/**
 * A well-behaved operator beside a hostile one, one kind of attack at a time: the cost of the attack to the
 * well-behaved one (N1-N3).
 */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, CommandError } from '../../servers/child';
import { eventText, uuidV7 } from '../feed';
import { withClient } from '../guest';
import { HOSTILE_KINDS, type HostileKind } from '../hostile-kinds';
import { latenciesOf } from '../latencies';
import { watchProcess } from '../measure';
import type { Bench, Mode } from '../mode';
import { runPaced } from '../paced';
import type { Measured } from '../result';
import { WEBHOOK } from '../stage';
import { percentiles, type Weighted } from '../statistics';
import { figure } from '../table';
import { post, type Recipient } from '../webhook-senders';

interface Limits {
  /** Goal: 99 of 100 events of the well-behaved operator are decided within this time. */
  readonly decidedMs: number;
  /** Goal: each probe of the worker's health is answered within this time. */
  readonly probeMs: number;
}

const LIMITS: Limits = { decidedMs: 2_000, probeMs: 1_000 };
/**
 * Limits of the check. They are coarse, since the machines of CI are shared. Without the protection of
 * neighbours the times are half a minute.
 */
const LIMITS_OF_CHECK: Limits = { decidedMs: 10_000, probeMs: 10_000 };
/** Memory limits of the chart's pods (helm/promo-intake/values.yaml). */
const WORKER_MIB = 768;
const WEBHOOK_MIB = 512;
const START_MS = 60_000;
/** Longest time of a request of the well-behaved sender. Each request has a connection of its own. */
const REQUEST_WITHIN_MS = 30_000;
const REQUEST_EVERY_MS = 100;
const PROBE_EVERY_MS = 500;
const SERVED = /"port":(\d+),"connections"/;
const HEALTH = /"port":(\d+),"msg":"serving health and metrics"/;
const HOSTILE_WEBHOOK = 'hostile-hook';

interface Entry {
  readonly kind: HostileKind;
  readonly kafkaP99: number;
  readonly webhookP99: number;
  /** Requests of the well-behaved sender that were not answered 200. */
  readonly notAnswered: number;
  /** Probes of the worker's health that were not answered 200 in time. */
  readonly probesFailed: number;
  /** Processes that ended. */
  readonly restarts: number;
  readonly workerMib: number;
  readonly webhookMib: number;
}

/** One kind for each resource: memory by bytes, memory by objects, the event loop, the store. */
const SHORT_KINDS = 'large-keys,many-headers,one-byte-chunks,nested-rounds';

export const neighbours: Mode = {
  name: 'neighbours',
  about: 'a well-behaved operator beside a hostile one, a kind of attack at a time',
  ownPostgres: true,
  ownKafka: true,
  // `kinds`: names of dev/bench/hostile-kinds.ts, or all.
  extent: { kinds: 'all', rate: 200, seconds: 15 },
  run: (bench) => run(bench, LIMITS),
};

export const neighboursCheck: Mode = {
  ...neighbours,
  name: 'neighbours-check',
  about: 'four kinds of attack of the mode neighbours: exit code 1 where a goal is missed',
  isCheck: true,
  extent: { kinds: SHORT_KINDS, rate: 200, seconds: 6 },
  // All kinds run by themselves, four in each long run, and two in a usual one.
  run: (bench) => run(bench, bench.extent.word('kinds') === 'all' ? LIMITS : LIMITS_OF_CHECK),
};

async function run(bench: Bench, limits: Limits): Promise<Measured> {
  const wanted = bench.extent.word('kinds');
  const kinds: readonly HostileKind[] = HOSTILE_KINDS.filter(
    ({ name }) => wanted === 'all' || wanted.split(',').includes(name),
  );
  const entries: Entry[] = [];
  for (const kind of kinds) {
    bench.say(kind.about);
    const entry = await measure(bench, kind, limits.probeMs);
    entries.push(entry);
    bench.say(JSON.stringify(recordOf(entry)));
  }
  const goals = goalsOf(entries, limits);
  const missed = goals.filter(({ met }) => met !== true);
  return {
    table: {
      columns: [
        'hostile sender',
        'Kafka p99 ms',
        'webhook p99 ms',
        'not answered 200',
        'failed probes',
        'restarts',
        'worker MiB',
        'webhook MiB',
      ],
      rows: entries.map((entry) => [
        entry.kind.about,
        figure(entry.kafkaP99),
        figure(entry.webhookP99),
        figure(entry.notAnswered),
        figure(entry.probesFailed),
        figure(entry.restarts),
        figure(entry.workerMib),
        figure(entry.webhookMib),
      ]),
      notes: [
        'Times are those of the well-behaved operator, from the scheduled send to the committed decision (Kafka) or to the answer (webhook). Memory is the highest of the process.',
      ],
    },
    goals,
    runs: entries.map(recordOf),
    ...(missed.length > 0 && {
      failure: missed.map(({ goal, measured }) => `${goal}: ${measured}`).join('; '),
    }),
  };
}

function goalsOf(entries: readonly Entry[], { decidedMs }: Limits) {
  const most = (pick: (entry: Entry) => number) => Math.max(...entries.map(pick));
  const slowest = most(({ kafkaP99, webhookP99 }) => Math.max(kafkaP99, webhookP99));
  const lost = most(({ notAnswered, probesFailed, restarts }) => notAnswered + probesFailed + restarts);
  const [worker, webhook] = [most(({ workerMib }) => workerMib), most(({ webhookMib }) => webhookMib)];
  return [
    {
      id: 'N1',
      goal: `beside each hostile sender: p99 to decide < ${decidedMs / 1000} s`,
      measured: `${figure(slowest)} ms at worst`,
      met: slowest < decidedMs,
    },
    {
      id: 'N2',
      goal: 'no restart, no failed probe, no answer but 200',
      measured: `${figure(lost)} at worst`,
      met: lost === 0,
    },
    {
      id: 'N3',
      goal: `memory within the chart's limits (worker ${WORKER_MIB}, webhook ${WEBHOOK_MIB} MiB)`,
      measured: `${figure(worker)} and ${figure(webhook)} MiB at worst`,
      met: worker < WORKER_MIB && webhook < WEBHOOK_MIB,
    },
  ];
}

function recordOf(entry: Entry) {
  return {
    hostile: entry.kind.name,
    kafka_p99_ms: Math.round(entry.kafkaP99),
    webhook_p99_ms: Math.round(entry.webhookP99),
    not_answered_200: entry.notAnswered,
    failed_probes: entry.probesFailed,
    restarts: entry.restarts,
    worker_mib: Math.round(entry.workerMib),
    webhook_mib: Math.round(entry.webhookMib),
  };
}

async function measure({ stage, extent, say }: Bench, kind: HostileKind, probeMs: number): Promise<Entry> {
  const largest = { 'max.message.bytes': String(16 * 1024 ** 2) };
  const topic = await stage.makeTopic();
  const ownTopic = await stage.makeTopic(largest);
  const sharedTopic = await stage.makeTopic(largest);
  const secrets = { [WEBHOOK]: randomBytes(32), [HOSTILE_WEBHOOK]: randomBytes(32) };
  const secretOf = (connection: keyof typeof secrets) => `whsec_${secrets[connection]?.toString('base64')}`;
  return stage.withDatabase([], async (databaseUrl) => {
    const file = stage.file('neighbours.json');
    writeFileSync(file, JSON.stringify(referenceOf(topic, ownTopic, sharedTopic)));
    await stage.command(['reference', 'apply', file, '--allow-removal'], { DATABASE_URL: databaseUrl });
    const webhook = stage.startWebhook('', {
      DATABASE_URL: databaseUrl,
      WEBHOOK_SECRETS: JSON.stringify({
        [WEBHOOK]: secretOf(WEBHOOK),
        [HOSTILE_WEBHOOK]: secretOf(HOSTILE_WEBHOOK),
      }),
    });
    await webhook.untilLogged(SERVED, START_MS);
    const port = Number(SERVED.exec(webhook.output())?.[1]);
    const webhookUse = watchProcess(webhook.pid ?? 0);
    const seconds = extent.number('seconds');
    const strangerUrl = await makeStranger(databaseUrl);
    const startHostile = (healthPort: number) =>
      stage.startProgram('hostile-neighbour', {
        KIND: kind.name,
        OWN_TOPIC: ownTopic,
        SHARED_TOPIC: sharedTopic,
        WEBHOOK_PORT: String(port),
        HEALTH_PORT: String(healthPort),
        CONNECTION: HOSTILE_WEBHOOK,
        SECRET: secrets[HOSTILE_WEBHOOK]?.toString('base64') ?? '',
        STRANGER_URL: strangerUrl,
      });
    let hostile: Child | undefined;
    if (kind.isBacklog) {
      hostile = startHostile(0);
      await hostile.untilLogged(/"sent"/, START_MS);
    }
    const sent: SentRequests = { latencies: [], notAnswered: 0 };
    let probesFailed = 0;
    let worker: Child | undefined;
    const load = {
      topic,
      databaseUrl,
      seconds,
      rate: extent.number('rate'),
      settings: { KAFKA_TOPICS: [topic, ownTopic, sharedTopic].join() },
      async before(started: Child) {
        worker = started;
        hostile ??= startHostile(healthPortOf(started));
        await hostile.untilLogged(/"attacking"/, START_MS);
      },
      async meanwhile(started: Child) {
        const until = performance.now() + seconds * 1000;
        const probing = probe(healthPortOf(started), until, probeMs);
        const secret = secrets[WEBHOOK] ?? Buffer.of();
        await sendRequests({ port, connectionId: WEBHOOK, secret }, until, sent);
        probesFailed = await probing;
      },
      async after() {
        if (hostile?.endedBy !== undefined) throw hostile.failure(`the attack ended (${hostile.endedBy})`);
        await hostile?.stop();
      },
    };
    // A worker that ends, or that decides nothing for two minutes, is a result.
    const run = await runPaced({ stage, extent, say }, load).catch((error: unknown) => {
      if (!(error instanceof CommandError)) throw error;
      say(error.message);
      return null;
    });
    const webhookMib = webhookUse.stop().peakRssMib;
    const restarts = [webhook, worker].filter((child) => child?.endedBy !== undefined).length - (run ? 1 : 0);
    await Promise.all([webhook.stop(), worker?.stop(), hostile?.stop()]);
    const batches = run?.log.batches.filter((batch) => batch.topic === topic) ?? [];
    const p99 = (weighted: readonly Weighted[]) => percentiles(weighted, [0.99])[0] ?? Number.NaN;
    return {
      kind,
      kafkaP99: run === null ? Number.NaN : p99(latenciesOf(run.sends, batches)),
      webhookP99: p99(sent.latencies),
      notAnswered: sent.notAnswered,
      probesFailed,
      restarts,
      workerMib: run?.worker.peakRssMib ?? Number.NaN,
      webhookMib,
    };
  });
}

interface SentRequests {
  readonly latencies: Weighted[];
  notAnswered: number;
}

function healthPortOf(worker: Child): number {
  return Number(HEALTH.exec(worker.output())?.[1]);
}

function referenceOf(topic: string, ownTopic: string, sharedTopic: string): object {
  const operator = (id: string, own: string, hook: string) => ({
    id,
    connections: [
      { id: `${id}-stream`, transport: 'kafka', topic: own, brands: 'several' },
      { id: `${id}-shared`, transport: 'kafka', topic: sharedTopic, brands: 'several' },
      { id: hook, transport: 'webhook', brands: 'several' },
    ],
    brands: [{ id: 'main', min_bet: { EUR: '0.10' } }],
    catalogue: [{ id: 'g1' }],
  });
  return { operators: [operator('good', topic, WEBHOOK), operator('hostile', ownTopic, HOSTILE_WEBHOOK)] };
}

/**
 * Makes a role that may connect to the database and do nothing else.
 *
 * @returns its address
 */
async function makeStranger(databaseUrl: string): Promise<string> {
  const name = 'promo_bench_stranger';
  const password = randomBytes(12).toString('hex');
  await withClient(databaseUrl, async (client) => {
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [name]);
    await client.query(`${rowCount === 0 ? 'create' : 'alter'} role ${name} login password '${password}'`);
  });
  const url = new URL(databaseUrl);
  url.username = name;
  url.password = password;
  return url.href;
}

/**
 * Sends an event at intervals, each over a new connection, since a full server refuses new connections first.
 */
async function sendRequests(recipient: Recipient, until: number, sent: SentRequests): Promise<void> {
  const agent = new Agent({ keepAlive: false });
  const sending: Promise<void>[] = [];
  const one = async () => {
    const began = performance.now();
    // Without an answer, the status is 0.
    const status = await post(recipient, bet(), { agent, withinMs: REQUEST_WITHIN_MS }).catch(() => 0);
    sent.latencies.push({ value: performance.now() - began, count: 1 });
    if (status !== 200) sent.notAnswered++;
  };
  while (performance.now() < until) {
    sending.push(one());
    await sleep(REQUEST_EVERY_MS);
  }
  await Promise.all(sending);
}

function bet(): Buffer {
  const at = Date.now();
  const [eventId, round] = [uuidV7(at), uuidV7(at)];
  return Buffer.from(eventText({ eventId, player: 'player', kind: 'bet', round, amount: '1.00', at }));
}

/** @returns how many probes were not answered 200 in time */
async function probe(port: number, until: number, withinMs: number): Promise<number> {
  let failed = 0;
  while (performance.now() < until) {
    const ok = await new Promise<boolean>((resolve) => {
      get(
        {
          port,
          host: '127.0.0.1',
          path: '/livez',
          agent: false,
          signal: AbortSignal.timeout(withinMs),
        },
        (answer) => {
          answer.resume().once('end', () => resolve(answer.statusCode === 200));
        },
      ).once('error', () => resolve(false));
    });
    if (!ok) failed++;
    await sleep(PROBE_EVERY_MS);
  }
  return failed;
}
