/** A store of one operator with months of verdicts, for modes that ask it or count it. */
import { writeFileSync } from 'node:fs';
import type { Client } from 'pg';
import { fillStore } from './filled-store';
import { withClient } from './guest';
import type { Bench } from './mode';
import { figure } from './table';

/** The operator of the guide, and the topic of its events. */
export const OPERATOR = 'acme';
/** For each event, at most. */
const FILL_MS = 0.2;
const BEGIN_MS = 600_000;

/**
 * Fills the store with events of `players` in `games`, over `days`: as many as BENCH_EVENTS, or as given.
 *
 * @param roundsPerRefund each round has five events: of 50 rounds, 0.4 % of the events are refunds
 */
export async function fillMonths(
  bench: Bench,
  databaseUrl: string,
  { roundsPerRefund = 50, events = bench.extent.number('events') } = {},
): Promise<void> {
  await makeSender(bench, databaseUrl);
  const { extent, say } = bench;
  say(`filling a store with ${figure(events)} verdicts`);
  const fill = {
    events,
    days: extent.number('days'),
    players: extent.number('players'),
    games: extent.number('games'),
    lateRounds: Math.ceil(events / 100),
    tail: 0,
    roundsPerRefund,
    rejected: 0.03,
    eventsPerDuplicate: 200,
  };
  const withOwn = <T>(work: (client: Client) => Promise<T>): Promise<T> =>
    withClient(databaseUrl, work, BEGIN_MS + events * FILL_MS);
  await withOwn((client) =>
    withOwn((second) => withOwn((third) => fillStore(client, OPERATOR, fill, [second, third]))),
  );
}

/** Registers the operator of the guide, as if its partition had been read before. */
async function makeSender({ stage }: Bench, databaseUrl: string): Promise<void> {
  const file = stage.file('guide.json');
  const brands = [{ id: 'main' }, { id: 'second' }];
  const connections = [{ id: 'acme-stream', transport: 'kafka', topic: OPERATOR, brands: 'several' }];
  writeFileSync(file, JSON.stringify({ operators: [{ id: OPERATOR, connections, brands }] }));
  await stage.command(['reference', 'apply', file, '--allow-removal'], { DATABASE_URL: databaseUrl });
  await withClient(databaseUrl, (client) =>
    client.query(`insert into promo_store.partitions (topic, partition) values ($1, 0)`, [OPERATOR]),
  );
}
