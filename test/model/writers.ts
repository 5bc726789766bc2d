/** Writers of a run: their judged items, their retries, and the connections that are ended under them. */
import { pino } from 'pino';
import type { Item } from '../../src/domain/verdict/decide';
import { type TestStore, type WriterOptions, withClient } from '../support/ledger';
import { pause } from './reading';
import { placeOf } from './verify';

/** The name of the writers in pg_stat_activity. */
export const WRITERS = 'promo-model';

/** Items and retries of a run. */
export interface Recorded {
  /** The judged items, by topic, partition and offset. */
  readonly items: Map<string, Item>;
  /** Batches that were decided again at once, by their cause. */
  readonly again: { races: number; deadlocks: number; others: number };
  /** For each writer. */
  readonly options: Pick<WriterOptions, 'name' | 'logger' | 'wrap'>;
}

export function record(): Recorded {
  const items = new Map<string, Item>();
  const again = { races: 0, deadlocks: 0, others: 0 };
  const logger = pino(
    { level: 'info' },
    {
      write(line: string) {
        if (!line.includes('batch is decided again')) return;
        if (line.includes('deadlock detected')) again.deadlocks++;
        else if (/another w|event_keys_pkey|rounds_pkey/.test(line)) again.races++;
        else again.others++;
      },
    },
  );
  return {
    items,
    again,
    options: {
      name: WRITERS,
      logger,
      wrap: (ledger) => ({
        ...ledger,
        decideBatch(batch) {
          for (const { partition, from, to } of batch.parts) {
            for (const item of batch.items.slice(from, to))
              if (item.source !== null)
                items.set(placeOf(partition.topic, partition.partition, item.source.offset), item);
          }
          return ledger.decideBatch(batch);
        },
      }),
    },
  };
}

/**
 * Ends connections of writers that are in a transaction, one at a time, after each of the pauses.
 * @returns how many
 */
export function endBackends(
  store: TestStore,
  pausesMs: readonly number[],
  ended: AbortSignal,
): Promise<number> {
  return withClient(store.url, async (client) => {
    let killed = 0;
    for (const milliseconds of pausesMs) {
      await pause(milliseconds);
      if (ended.aborted) break;
      const { rowCount } = await client.query(
        `select pg_terminate_backend(pid) from (select pid from pg_stat_activity
         where datname = current_database() and application_name = '${WRITERS}' and xact_start is not null order by random() limit 1) a`,
      );
      killed += rowCount ?? 0;
    }
    return killed;
  });
}
