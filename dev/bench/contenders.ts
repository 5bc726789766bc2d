/** The contenders beside the worker. Each runs once over the same records and reports its time and cost. */
import { once } from 'node:events';
import type { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import type { Child } from '../servers/child';
import { within } from '../servers/deadline';
import { withClient } from './guest';
import { CREATE_INSERT_ONLY } from './insert-only-table';
import { watchHost } from './measure';
import { readSpan } from './programs/span';
import type { Published } from './publish';
import { deadlineFor, type Run, useOf, watchPostgres } from './runs';
import { checkpoint, type Settings, type Stage } from './stage';

const COPY_ROWS = 10_000;
const PIECE_DEADLINE_MS = 60_000;

export interface Course {
  readonly published: Published;
  readonly databaseUrl: string;
  readonly settings?: Settings;
}

/**
 * Runs the contender that validates and inserts, into a table of its own. Its time runs from the assignment
 * of its partitions to its last commit.
 */
export async function runInsertOnly(stage: Stage, course: Course): Promise<Run> {
  return withClient(course.databaseUrl, async (client) => {
    await client.query(CREATE_INSERT_ONLY);
    await checkpoint(course.databaseUrl);
    const postgres = await watchPostgres(client);
    const played = await runProgram(stage, 'insert-only', course);
    return { ...played, ...(await postgres.stop()), bytes: await sizeOf(client) };
  });
}

export async function runRawConsume(stage: Stage, course: Course): Promise<Run> {
  const takenByHost = watchHost();
  return {
    ...(await runProgram(stage, 'raw-consume', course)),
    postgresCpuSeconds: 0,
    walBytes: 0,
    takenByHost: takenByHost(),
    bytes: 0,
  };
}

async function runProgram(stage: Stage, name: string, { published, databaseUrl, settings }: Course) {
  const child: Child = stage.startProgram(name, {
    DATABASE_URL: databaseUrl,
    KAFKA_GROUP_ID: stage.newGroup(),
    TOPIC: published.topic,
    RECORDS: String(published.records),
    ...settings,
  });
  const use = await useOf(child, deadlineFor(published.records));
  const { assignedAt, endedAt } = readSpan(child.output());
  return { events: published.records, seconds: (endedAt - assignedAt) / 1000, ...use };
}

/**
 * Copies the rows of insert-only into the same table with its key, emptied first. A transaction has 10,000
 * rows, over one connection.
 */
export async function runCopy({ databaseUrl }: Course): Promise<Run> {
  return withClient(databaseUrl, async (client) => {
    const pieces = await readRows(client);
    await client.query('truncate bench_insert_only');
    await checkpoint(databaseUrl);
    const postgres = await watchPostgres(client);
    const own = process.cpuUsage();
    const began = performance.now();
    for (const piece of pieces) {
      const stream = client.query(copyFrom('copy bench_insert_only from stdin binary'));
      stream.end(piece);
      await within('COPY stores a piece', PIECE_DEADLINE_MS, once(stream, 'finish'));
    }
    const seconds = (performance.now() - began) / 1000;
    const { user, system } = process.cpuUsage(own);
    const postgresUse = await postgres.stop();
    return {
      events: await countOf(client),
      seconds,
      cpuSeconds: (user + system) / 1e6,
      ...postgresUse,
      peakRssMib: 0,
      bytes: await sizeOf(client),
    };
  });
}

/**
 * Reads the rows of insert-only in COPY's binary format, in the order in which they were stored, in pieces of
 * about COPY_ROWS rows.
 */
async function readRows(client: Client): Promise<Buffer[]> {
  const rows = await countOf(client);
  const { rows: sizes } = await client.query<{ pages: number }>(
    `select (pg_relation_size('bench_insert_only') / current_setting('block_size')::int)::int as pages`,
  );
  const pages = sizes[0]?.pages ?? 0;
  const step = Math.max(1, Math.round((COPY_ROWS * pages) / rows));
  const pieces: Buffer[] = [];
  for (let page = 0; page < pages; page += step) {
    const select = `select * from bench_insert_only where ctid >= '(${page},0)' and ctid < '(${page + step},0)'`;
    const chunks: Buffer[] = [];
    for await (const chunk of client.query(copyTo(`copy (${select}) to stdout binary`)))
      chunks.push(Buffer.from(chunk));
    pieces.push(Buffer.concat(chunks));
  }
  return pieces;
}

async function countOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    'select count(*)::int as count from bench_insert_only',
  );
  return rows[0]?.count ?? 0;
}

async function sizeOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ bytes: string }>(
    `select pg_total_relation_size('bench_insert_only') as bytes`,
  );
  return Number(rows[0]?.bytes);
}
