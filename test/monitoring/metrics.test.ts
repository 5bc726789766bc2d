/** Each metric moves on a real worker. The number of series stays that of partitions and connections. */
import { until } from '../../dev/servers/deadline';
import { framed } from '../stream/registry';
import { inWorld } from '../stream/world';
import { aLogin, bytesOf } from '../support/builders';
import { type Outgoing, produce } from '../support/kafka';
import { schemaRegistryUrl } from '../support/servers';
import { killWorkers, type RunningCommand } from '../support/worker';

const LONG = 60_000;
jest.setTimeout(3 * LONG);
afterEach(killWorkers);

const UNKNOWN_SCHEMA = 1_999_999_999;
const login = (id: string, more: object = {}): Outgoing => ({
  value: bytesOf(aLogin({ event_id: id, ...more })),
});

/** Every series of our own metrics, by name and labels. */
async function linesOf(worker: RunningCommand): Promise<Map<string, number>> {
  const { text } = await worker.get('/metrics');
  return new Map(
    text
      .split('\n')
      .filter((line) => line.startsWith('promo_intake_'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

it('each metric moves with its subject', () =>
  inWorld(
    {
      topics: { main: 2 },
      settings: { SCHEMA_REGISTRY_URL: schemaRegistryUrl() },
    },
    async (world) => {
      const { main } = world.topics;
      const worker = await world.started();
      const at = async (name: string) => (await linesOf(worker)).get(`promo_intake_${name}`) ?? 0;
      const untilIs = (name: string, isIt: (value: number) => boolean) =>
        until(`${name} is it`, LONG, async () => isIt(await at(name)));
      await untilIs('assigned_partitions', (partitions) => partitions === 2);
      expect((await linesOf(worker)).get('promo_intake_dead_letters_total{reason="unclaimed"}')).toBe(0);

      await produce(main, [
        ...[login('a'), login('a'), login('a', { player_ref: 'another' }), login('b', { brand: 'none' })],
        { value: framed(UNKNOWN_SCHEMA, 'x') },
        { value: framed(UNKNOWN_SCHEMA, 'x') },
      ]);
      await untilIs('dead_letters_total{reason="schema_unknown"}', (letters) => letters === 2);
      const lag = (state: string) => `lag_records{topic="${main}",partition="0",state="${state}"}`;
      await untilIs(lag('deciding'), (records) => records === 0);
      const decided = await linesOf(worker);
      const of = (name: string) => decided.get(`promo_intake_${name}`) ?? 0;
      const kindOf = `kind="login",connection="of-${main}"`;
      expect(of(`verdicts_total{verdict="accepted",reason="",${kindOf}}`)).toBe(1);
      expect(of(`verdicts_total{verdict="duplicate",reason="",${kindOf}}`)).toBe(2);
      expect(of(`verdicts_total{verdict="rejected",reason="brand_unmapped",${kindOf}}`)).toBe(1);
      expect(of('duplicates_total{first="kafka",transport="kafka",content="same"}')).toBe(1);
      expect(of('duplicates_total{first="kafka",transport="kafka",content="differs"}')).toBe(1);
      expect(of('batch_events_sum')).toBe(6);
      const batches = of('batch_events_count');
      expect(batches).toBeGreaterThan(0);
      for (const name of ['batch_seconds', 'decide_seconds']) expect(of(`${name}_count`)).toBe(batches);
      expect(of('decide_seconds_sum')).toBeGreaterThan(0);
      expect(of('decide_seconds_sum')).toBeLessThan(LONG / 1000);
      for (const step of ['connect', 'find', 'lock', 'decide', 'write'])
        expect(of(`transaction_step_seconds_count{step="${step}"}`)).toBe(batches);
      expect(of('registry_lookups_total{result="miss"}')).toBeGreaterThan(0);
      expect(of('rebalance_seconds_count')).toBe(1);
      expect(of('fetch_age_seconds')).toBeLessThan(30);
      const { version } = jest.requireActual<{ version: string }>('../../package.json');
      expect(of(`build_info{version="${version}",node="${process.versions.node}"}`)).toBe(1);

      // A lost race: the batch is decided again.
      await world.rows('create sequence lost');
      await world.rows('grant usage on sequence lost to public');
      await world.rows(
        `create function lose_once() returns trigger language plpgsql as $$ begin
          if nextval('lost') = 1 then raise exception using errcode = '40001', message = 'lost'; end if; return new; end $$`,
      );
      await world.rows(
        'create trigger lose before insert on promo_store.event_keys for each row execute function lose_once()',
      );
      await produce(main, [login('c')]);
      await untilIs('retries_total{class="again"}', (retries) => retries === 1);
      // Otherwise the next fault could meet this event, too.
      await untilIs(lag('deciding'), (records) => records === 0);

      // The store refuses everything.
      await world.rows('alter table promo_store.history rename player_ref to player');
      await produce(main, [login('d'), login('e')]);
      await untilIs('undecided_seconds{cause="store"}', (seconds) => seconds > 1);
      const waiting = await linesOf(worker);
      expect(waiting.get('promo_intake_undecided_partitions')).toBe(1);
      expect(waiting.get('promo_intake_retries_total{class="undecided"}')).toBeGreaterThan(0);
      expect(waiting.get(`promo_intake_${lag('undecided')}`)).toBe(2);
      expect(waiting.has(`promo_intake_${lag('deciding')}`)).toBe(false);
      expect(
        waiting.get(`promo_intake_lag_seconds{topic="${main}",partition="0",state="undecided"}`),
      ).toBeGreaterThan(1);
      await world.rows('alter table promo_store.history rename player to player_ref');
      await untilIs('undecided_seconds{cause="store"}', (seconds) => seconds === 0);

      // The store refuses one event.
      await world.rows(
        `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'of this event'; end $$`,
      );
      await world.rows(
        `create trigger refuse before insert on promo_store.history for each row when (new.event_id = 'f') execute function refuse()`,
      );
      await produce(main, [login('f')]);
      await untilIs('retries_total{class="data"}', (retries) => retries > 0);
      await world.rows('drop trigger refuse on promo_store.history');

      // The numbers of wallet calls come from the store, behind the next scrape.
      await world.rows(
        `insert into promo_store.wallet_calls (operator_id, op_id, action, content_hash, payload, call_values, state, due_at)
        select 'acme', 'op-' || n, 'credit', '', '{}', '{}', case n when 1 then 'open' else 'unresolved' end, now() - interval '1 minute'
        from generate_series(1, 3) n`,
      );
      await untilIs('wallet_calls_unresolved', (calls) => calls === 2);
      expect(await at('wallet_calls_open')).toBe(1);
      expect(await at('wallet_oldest_due_seconds')).toBeGreaterThanOrEqual(60);

      // A second worker takes a partition over: the first one serves no series of it any more.
      await world.started();
      await untilIs('assigned_partitions', (partitions) => partitions === 1);
      const shared = await linesOf(worker);
      expect([...shared.keys()].filter((name) => name.startsWith('promo_intake_lag_seconds'))).toHaveLength(
        1,
      );
      expect(shared.get('promo_intake_rebalance_seconds_count')).toBeGreaterThan(1);
    },
  ));
