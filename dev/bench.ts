/**
 * `make bench`: the worker, from topic to committed verdict, beside COPY of the same rows into the same table, in turns on the same
 * servers. Prints the settings, a table of medians, and one JSON line for each run.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Kafka, logLevel } from 'kafkajs';
import { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { type FeedMessage, makeFeed, USUAL_SHAPE } from './bench/feed';
import { median, postgresCpuSeconds, watchProcess } from './bench/measure';
import { type Servers, startServers } from './servers';

const EVENTS = Number(process.env.BENCH_EVENTS ?? 200_000);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const PARTITIONS = 8;
const SEED = 1;
const COPY_ROWS = 10_000;
const COPY_CONNECTIONS = 3;
const PRODUCE_MESSAGES = 2_000;
const SETTINGS = { BATCH_EVENTS: '2000', PARTITIONS_AT_ONCE: '3' };
const CLI = join(__dirname, '..', '..', 'dist', 'cli.js');

interface Run {
  readonly name: 'worker' | 'copy';
  readonly events: number;
  readonly seconds: number;
  readonly events_per_second: number;
  readonly worker_cpu_seconds_per_100k: number;
  readonly postgres_cpu_seconds_per_100k: number;
  readonly rss_mib: number;
  readonly bytes_per_event: number;
}

const say = (line: string) => process.stderr.write(`${line}\n`);

async function main(): Promise<void> {
  const servers = await startServers({ need: ['kafka', 'postgres'], log: say });
  try {
    const topic = `promo.bench.${Date.now()}`;
    const bytes = await publish(servers.kafkaBrokers, topic);
    const runs: Run[] = [];
    for (let round = 1; round <= ROUNDS; round++) {
      say(`round ${round} of ${ROUNDS}`);
      const database = await freshDatabase(servers, topic, round);
      const worker = await runWorker(servers, database, topic, round);
      runs.push(worker.run, await runCopy(database, worker.rows, worker.run.events));
    }
    await report(servers, runs, bytes);
  } finally {
    await servers.stop();
  }
}

async function publish(brokers: string, topic: string): Promise<number> {
  const kafka = new Kafka({ brokers: brokers.split(','), logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({
    waitForLeaders: true,
    topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: 1 }],
  });
  await admin.disconnect();
  const producer = kafka.producer();
  await producer.connect();
  let bytes = 0;
  let messages: FeedMessage[] = [];
  const send = async () => {
    await producer.send({ topic, messages });
    messages = [];
  };
  for (const message of makeFeed({ ...USUAL_SHAPE, events: EVENTS }, SEED)) {
    bytes += message.value.length;
    messages.push(message);
    if (messages.length === PRODUCE_MESSAGES) await send();
  }
  if (messages.length > 0) await send();
  await producer.disconnect();
  return bytes / EVENTS;
}

async function freshDatabase({ databaseUrl }: Servers, topic: string, round: number): Promise<string> {
  const name = `promo_bench_${round}_${Date.now()}`;
  await sql(databaseUrl, `create database ${name}`);
  const url = new URL(databaseUrl);
  url.pathname = `/${name}`;
  await command(['migrate'], { DATABASE_URL: url.href });
  const reference = JSON.stringify({
    operators: [
      {
        id: 'bench',
        connections: [{ id: 'bench-stream', transport: 'kafka', topic, brands: 'several' }],
        brands: [{ id: 'main', min_bet: { EUR: '0.10' } }],
        catalogue: [{ id: 'g1' }],
      },
    ],
  });
  await command(['reference', 'apply', '-'], { DATABASE_URL: url.href }, reference);
  return url.href;
}

/** Seconds from the partitions being assigned to the last commit, by the clocks of the log and the store on this machine. */
async function runWorker(servers: Servers, databaseUrl: string, topic: string, round: number) {
  const client = await connect(databaseUrl);
  const backend = Number((await client.query('select pg_backend_pid() as pid')).rows[0]?.pid);
  const cpuBefore = postgresCpuSeconds(backend);
  const child = spawn(process.execPath, [CLI, 'worker', '--drain'], {
    env: {
      ...process.env,
      ...SETTINGS,
      KAFKA_BROKERS: servers.kafkaBrokers,
      DATABASE_URL: databaseUrl,
      KAFKA_GROUP_ID: `${topic}.${round}`,
      HTTP_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const watch = watchProcess(child.pid ?? 0);
  let assignedAt = Number.NaN;
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.includes('partitions assigned'))
      assignedAt = Date.parse(/"time":"([^"]+)"/.exec(line)?.[1] ?? '');
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`the worker ended with ${code}`);
  const use = watch.stop();
  const cpu = postgresCpuSeconds(backend) - cpuBefore;
  const { rows } = await client.query(
    `select sum(records_read)::int as events, extract(epoch from max(updated_at)) * 1000 as ended,
      (select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'promo_store' and c.relkind = 'r') as bytes from promo_store.partitions`,
  );
  const events = Number(rows[0]?.events);
  const seconds = (Number(rows[0]?.ended) - assignedAt) / 1000;
  const history = await readHistory(client);
  await client.end();
  return {
    run: makeRun('worker', events, seconds, use.cpuSeconds, cpu, use.peakRssMib, Number(rows[0]?.bytes)),
    rows: history,
  };
}

/** The rows of history in COPY's binary format, in pieces of COPY_ROWS rows. */
async function readHistory(client: Client): Promise<Buffer[]> {
  const { rows } = await client.query('select count(*)::int as count from promo_store.history');
  const pieces: Buffer[] = [];
  for (let offset = 0; offset < Number(rows[0]?.count); offset += COPY_ROWS) {
    const select = `select * from promo_store.history order by verdict_id limit ${COPY_ROWS} offset ${offset}`;
    const chunks: Buffer[] = [];
    for await (const chunk of client.query(copyTo(`copy (${select}) to stdout binary`)))
      chunks.push(Buffer.from(chunk));
    pieces.push(Buffer.concat(chunks));
  }
  return pieces;
}

/** The same rows into the same table, emptied first, with the same indexes; each piece is a transaction. */
async function runCopy(databaseUrl: string, pieces: readonly Buffer[], events: number): Promise<Run> {
  const clients = await Promise.all(Array.from({ length: COPY_CONNECTIONS }, () => connect(databaseUrl)));
  const [client] = clients;
  if (client === undefined) throw new Error('no connection');
  await client.query('truncate promo_store.history');
  await client.query('checkpoint');
  const backend = Number((await client.query('select pg_backend_pid() as pid')).rows[0]?.pid);
  const cpuBefore = postgresCpuSeconds(backend);
  const own = process.cpuUsage();
  const began = performance.now();
  const waiting = [...pieces];
  await Promise.all(
    clients.map(async (each) => {
      for (let piece = waiting.shift(); piece !== undefined; piece = waiting.shift()) {
        const stream = each.query(copyFrom('copy promo_store.history from stdin binary'));
        stream.end(piece);
        await once(stream, 'finish');
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  const cpu = postgresCpuSeconds(backend) - cpuBefore;
  const { user, system } = process.cpuUsage(own);
  const { rows } = await client.query(
    `select count(*)::int as rows, (select sum(pg_total_relation_size(inhrelid)) from pg_inherits
      where inhparent = 'promo_store.history'::regclass) as bytes from promo_store.history`,
  );
  await Promise.all(clients.map((each) => each.end()));
  const copied = Number(rows[0]?.rows);
  say(`copied ${copied} rows of ${events} events`);
  return makeRun('copy', copied, seconds, (user + system) / 1e6, cpu, 0, Number(rows[0]?.bytes));
}

function makeRun(
  name: Run['name'],
  events: number,
  seconds: number,
  cpu: number,
  postgresCpu: number,
  rss: number,
  bytes: number,
): Run {
  const per100k = (value: number) => Number(((value / events) * 100_000).toFixed(2));
  return {
    name,
    events,
    seconds: Number(seconds.toFixed(2)),
    events_per_second: Math.round(events / seconds),
    worker_cpu_seconds_per_100k: per100k(cpu),
    postgres_cpu_seconds_per_100k: per100k(postgresCpu),
    rss_mib: rss,
    bytes_per_event: Math.round(bytes / events),
  };
}

async function report({ databaseUrl, origin }: Servers, runs: readonly Run[], bytes: number): Promise<void> {
  const client = await connect(databaseUrl);
  const { rows } = await client.query(
    `select name, setting, unit from pg_settings where name in ('server_version', 'fsync', 'synchronous_commit', 'shared_buffers', 'max_wal_size')`,
  );
  await client.end();
  console.log(
    `events ${EVENTS}, ${bytes.toFixed(0)} bytes each, ${PARTITIONS} partitions keyed by player, seed ${SEED}, rounds ${ROUNDS}`,
  );
  console.log(
    `worker ${Object.entries(SETTINGS)
      .map((entry) => entry.join('='))
      .join(' ')}, node ${process.version}, servers ${JSON.stringify(origin)}`,
  );
  console.log(
    `postgres ${rows.map(({ name, setting, unit }) => `${name}=${setting}${unit ?? ''}`).join(' ')}`,
  );
  console.log(`copy: ${COPY_ROWS} rows a transaction, ${COPY_CONNECTIONS} connections\n`);
  console.log(
    '            events/s  x copy   cpu/100k  postgres/100k  rss MiB  bytes/event   (medians; events/s from-to)',
  );
  const copyRate = median(runs.filter(({ name }) => name === 'copy').map((run) => run.events_per_second));
  for (const name of ['copy', 'worker'] as const) {
    const of = runs.filter((run) => run.name === name);
    const column = (pick: (run: Run) => number) => median(of.map(pick));
    const rates = of.map((run) => run.events_per_second);
    console.log(
      [
        name.padEnd(8),
        String(column((run) => run.events_per_second)).padStart(12),
        (column((run) => run.events_per_second) / copyRate).toFixed(2).padStart(8),
        column((run) => run.worker_cpu_seconds_per_100k)
          .toFixed(2)
          .padStart(11),
        column((run) => run.postgres_cpu_seconds_per_100k)
          .toFixed(2)
          .padStart(15),
        String(column((run) => run.rss_mib)).padStart(9),
        String(column((run) => run.bytes_per_event)).padStart(13),
        `  ${Math.min(...rates)}-${Math.max(...rates)}`,
      ].join(''),
    );
  }
  console.log();
  for (const run of runs) console.log(JSON.stringify(run));
}

async function connect(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString });
  await client.connect();
  return client;
}

async function sql(databaseUrl: string, text: string): Promise<void> {
  const client = await connect(databaseUrl);
  await client.query(text);
  await client.end();
}

async function command(args: readonly string[], env: Record<string, string>, input = ''): Promise<void> {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  child.stdin.end(input);
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
