/** Writers that are held open between their number and the commit of their rows, as slow batches are. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { Ledger } from '../../src/ledger/decide-batch';

/** The row of a verdict in the batch of this transaction, like the first verdict of the store. */
export const HELD_ROW = `insert into promo_store.history (verdict_id, decided_at, feed_no, connection_no, reference_version, outcome, counted, event_id)
select currval('promo_store.batch_numbers') * 8192, now(), feed_no, connection_no, reference_version, outcome, false, $1 from promo_store.history limit 1`;

export class HeldWriter {
  private constructor(readonly client: Client) {}

  /** Begins, and takes a number. */
  static async begin(url: string): Promise<HeldWriter> {
    const client = new Client({ connectionString: url, application_name: 'promo-test-held' });
    client.on('error', () => {
      // Postgres ended the connection, as the test wanted.
    });
    await client.connect();
    await client.query('begin');
    await client.query(`select nextval('promo_store.batch_numbers')`);
    return new HeldWriter(client);
  }

  async write(eventId: string): Promise<void> {
    await this.client.query(HELD_ROW, [eventId]);
  }

  async end(how: string): Promise<void> {
    await this.client.query(how);
    await this.client.end();
  }
}

/** Holds each batch open behind its rows, so that batches commit in another order than their numbers. */
export const heldFor =
  (milliseconds: () => number) =>
  (ledger: Ledger): Ledger => ({
    ...ledger,
    decideBatch: (batch) =>
      ledger.decideBatch({
        ...batch,
        async beforeCommit() {
          await batch.beforeCommit?.();
          await sleep(milliseconds());
        },
      }),
  });
