/** A writer that is held open between its number and the commit of its rows, as a slow batch is. */
import { Client } from 'pg';

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
