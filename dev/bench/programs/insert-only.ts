/**
 * The contender insert-only: a program that validates and stores, and decides nothing. It uses kafkajs, ajv
 * and one prepared `insert ... select from unnest ... on conflict do nothing` for each batch, with sorted
 * keys.
 */
import Ajv2020 from 'ajv/dist/2020';
import { Pool } from 'pg';
import { EVENT_SCHEMA } from '../../../src/domain/event/schema';
import { parseInstant } from '../../../src/domain/event/timestamp';
import { INSERT_ONLY_COLUMNS } from '../insert-only-table';
import { consume, play } from './consume';
import { numberSetting, setting } from './settings';

interface Event {
  readonly event_id: string;
  readonly brand: string;
  readonly player_ref: string;
  readonly kind: string;
  readonly round_id: string | undefined;
  readonly game: { readonly id: string } | undefined;
  readonly amount: string | undefined;
  readonly currency: string | undefined;
  readonly occurred_at: string;
}

const ajv = new Ajv2020({ strictRequired: false });
ajv.addFormat('date-time', { type: 'string', validate: (text: string) => parseInstant(text) !== undefined });
const isEvent = ajv.compile<Event>(EVENT_SCHEMA);

const INSERT = {
  name: 'insert_only',
  text: `insert into bench_insert_only (${INSERT_ONLY_COLUMNS.map(([name]) => name).join(', ')})
select * from unnest(${INSERT_ONLY_COLUMNS.map(([, type], index) => `$${index + 1}::${type}[]`).join(', ')}) on conflict do nothing`,
};

const FEED = 'bench';
const batchEvents = numberSetting('BATCH_EVENTS');
const partitionsAtOnce = numberSetting('PARTITIONS_AT_ONCE');
const pool = new Pool({ connectionString: setting('DATABASE_URL'), max: partitionsAtOnce });

play(async () => {
  const span = await consume(numberSetting('RECORDS'), partitionsAtOnce, async ({ batch, heartbeat }) => {
    for (let first = 0; first < batch.messages.length; first += batchEvents) {
      const events: { event: Event; offset: string }[] = [];
      for (const { value, offset } of batch.messages.slice(first, first + batchEvents)) {
        const event: unknown = JSON.parse(String(value));
        if (isEvent(event)) events.push({ event, offset });
      }
      events.sort((a, b) => (a.event.event_id < b.event.event_id ? -1 : 1));
      const column = (pick: (event: Event) => unknown) => events.map(({ event }) => pick(event) ?? null);
      await pool.query({
        ...INSERT,
        values: [
          column(() => FEED),
          column((event) => event.event_id),
          column((event) => event.brand),
          column((event) => event.player_ref),
          column((event) => event.kind),
          column((event) => event.round_id),
          column((event) => event.game?.id),
          column((event) => event.amount),
          column((event) => event.currency),
          column((event) => event.occurred_at),
          column(() => batch.partition),
          events.map(({ offset }) => offset),
        ],
      });
      await heartbeat();
    }
    return batch.messages.length;
  });
  await pool.end();
  return span;
});
