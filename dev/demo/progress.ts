/** Observes the worker while it decides, and measures it. */
import type { Child } from '../servers/child';
import { sleep } from '../servers/deadline';
import { withClient } from './guest';

const LOOK_EVERY_MS = 40;
const STUCK_AFTER_MS = 60_000;
const END_DEADLINE_MS = 30_000;

const LOOK = {
  name: 'demo_look',
  text: `select coalesce(sum(records_read), 0)::int as decided, clock_timestamp()::text as at from promo.partitions`,
};

/**
 * decided_at is the begin of the deciding transaction. Its end is seen from outside, at most LOOK_EVERY_MS
 * late.
 */
const SECONDS =
  'select extract(epoch from $1::timestamptz - min(decided_at))::float8 as seconds from promo.verdicts';

/**
 * Waits until the worker, started with --drain, has decided everything and ended.
 *
 * @param decided gets the number of decided records whenever it grows
 * @returns seconds from the begin of the first deciding transaction to the end of the last, by the clock of
 * Postgres
 * @throws if the worker fails, or decides nothing for a minute
 */
export async function untilDecided(
  worker: Child,
  databaseUrl: string,
  total: number,
  decided: (records: number) => void,
): Promise<number> {
  return withClient(databaseUrl, async (client) => {
    let seen = 0;
    let seenAt: string | null = null;
    let progressMs = Date.now();
    const look = async (): Promise<void> => {
      const { rows } = await client.query<{ decided: number; at: string }>(LOOK);
      const [row] = rows;
      if (row === undefined || row.decided <= seen) return;
      ({ decided: seen, at: seenAt } = row);
      progressMs = Date.now();
      decided(seen);
    };
    while (worker.endedBy === undefined && seen < total) {
      await look();
      if (Date.now() - progressMs > STUCK_AFTER_MS)
        throw worker.failure(
          `nothing was decided for ${STUCK_AFTER_MS / 1_000} s, ${seen} of ${total} are done`,
        );
      await sleep(LOOK_EVERY_MS);
    }
    await worker.untilDone(END_DEADLINE_MS);
    await look();
    const { rows } = await client.query<{ seconds: number | null }>(SECONDS, [seenAt]);
    return rows[0]?.seconds ?? 0;
  });
}
