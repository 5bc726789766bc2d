/** The final report of the demo, read from the views of schema promo: counts, balance, ledger, anomalies. */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Client } from 'pg';
import { REASONS } from '../../src/domain/verdict/reasons';
import { projectRoot } from '../servers/download';
import { count, type Screen, table } from './screen';
import type { Stage } from './stage';

const OUTCOMES = `
select verdict, reason, count(*)::int as events from promo.verdicts group by 1, 2
union all
select 'duplicate', case when content_differs then 'other content' else 'equal content' end, count(*)::int from promo.deliveries group by 1, 2`;

const BALANCE = `
select coalesce(sum(records_read), 0)::int as records, coalesce(sum(verdicts), 0)::int as verdicts,
  coalesce(sum(duplicate_deliveries), 0)::int as duplicates, coalesce(sum(redeliveries), 0)::int as redeliveries,
  coalesce(sum(dead_letters), 0)::int as dead_letters, coalesce(sum(events_without_key), 0)::int as without_key
from promo.partitions`;

interface Balance {
  readonly records: number;
  readonly verdicts: number;
  readonly duplicates: number;
  readonly redeliveries: number;
  readonly dead_letters: number;
  readonly without_key: number;
}

const LEDGER = `
select count(*) filter (where reverses_entry_id is null)::int as entries, count(reverses_entry_id)::int as reversals from promo.ledger`;

const REFUNDED = `
select count(distinct (feed_id, round_id))::int as rounds, count(distinct (feed_id, round_id)) filter (where sum <> 0)::int as unbalanced
from (
  select r.feed_id, r.round_id, l.kind, l.currency, coalesce(sum(l.amount_minor), 0) as sum
  from (select distinct feed_id, round_id from promo.rounds where refunded) r
  left join promo.ledger l on l.feed_id = r.feed_id and l.round_id = r.round_id
  group by 1, 2, 3, 4
) sums`;

const ANOMALIES = `
select anomaly, count(*)::int as rounds, min(round_id) as example from promo.anomalies group by 1 order by 2 desc, 1`;

/** In the order of the list of reasons, which is the order of their precedence. */
const RANKS = new Map<string | null, number>(REASONS.map(({ name }, index) => [name, index]));
const VERDICT_ORDER = ['accepted', 'rejected', 'skipped', 'duplicate'];

export async function reportOutcomes(client: Client, screen: Screen): Promise<void> {
  const { rows } = await client.query<{ verdict: string; reason: string | null; events: number }>(OUTCOMES);
  const { rows: balances } = await client.query<Balance>(BALANCE);
  const [balance] = balances;
  if (balance === undefined) throw new Error('promo.partitions gave no sums');
  const sorted = rows.toSorted(
    (a, b) =>
      VERDICT_ORDER.indexOf(a.verdict) - VERDICT_ORDER.indexOf(b.verdict) ||
      (RANKS.get(a.reason) ?? 0) - (RANKS.get(b.reason) ?? 0) ||
      (a.reason ?? '').localeCompare(b.reason ?? ''),
  );
  const line = (verdict: string, reason: string, events: number): string[] => [
    ...[`  ${verdict}`, reason, count(events)],
    `${((100 * events) / Math.max(1, balance.records)).toFixed(2)} %`,
  ];
  const lines = sorted.map(({ verdict, reason, events }) => line(verdict, reason ?? '', events));
  // An event without key is never stored; it is still counted with the rejections.
  const firstStored = lines.findIndex(([verdict]) => verdict === '  rejected');
  const at = firstStored < 0 ? lines.length : firstStored;
  lines.splice(at, 0, line('rejected', 'no_idempotency_key', balance.without_key));
  lines.push(line('dead letter', 'unclaimed', balance.dead_letters));

  screen.heading('What became of the records');
  for (const text of table(
    [['  verdict', 'reason', 'records', 'share'], ...lines, ['  all', '', count(balance.records), '']],
    [2, 3],
  ))
    screen.line(text);
  screen.line(
    `  The balance of promo.partitions: ${count(balance.records)} read = ${count(balance.verdicts)} verdicts + ${count(balance.duplicates)} duplicates`,
  );
  screen.line(
    `  + ${count(balance.redeliveries)} read again + ${count(balance.dead_letters)} dead letters + ${count(balance.without_key)} without key.`,
  );
}

export async function reportLedger(client: Client, screen: Screen): Promise<void> {
  const { rows: ledgers } = await client.query<{ entries: number; reversals: number }>(LEDGER);
  const { rows: refunds } = await client.query<{ rounds: number; unbalanced: number }>(REFUNDED);
  const [ledger, refunded] = [ledgers[0], refunds[0]];
  if (ledger === undefined || refunded === undefined) throw new Error('promo.ledger gave no sums');
  screen.heading('The ledger');
  screen.line(`  ${count(ledger.entries)} entries and ${count(ledger.reversals)} reversals.`);
  screen.line(
    refunded.unbalanced === 0
      ? `  ${count(refunded.rounds)} rounds were refunded, and each of them sums to 0 per kind and currency.`
      : `  ${count(refunded.unbalanced)} of ${count(refunded.rounds)} refunded rounds do not sum to 0: this is a defect.`,
  );
}

export async function reportAnomalies(client: Client, screen: Screen): Promise<void> {
  const { rows } = await client.query<{ anomaly: string; rounds: number; example: string }>(ANOMALIES);
  screen.heading('Anomalies: rounds that contradict themselves, for the operator to look at');
  const lines = rows.map(({ anomaly, rounds, example }) => [`  ${anomaly}`, count(rounds), example]);
  for (const text of table([['  anomaly', 'rounds', 'for example'], ...lines], [1])) screen.line(text);
}

export function reportSpeed(records: number, seconds: number, screen: Screen): void {
  const perSecond = Math.round(records / Math.max(seconds, 0.001) / 100) * 100;
  screen.heading('Speed');
  screen.line(
    `  ${count(perSecond)} events a second: ${count(records)} in ${seconds.toFixed(2)} s, by one worker.`,
  );
  screen.line('  Measured from the begin of the first deciding transaction to the end of the last, by the');
  screen.line('  clock of Postgres; the worker has just been started, so its code is still cold.');
}

// --- the report as one HTML file, which stays in build/ when the demo removes all else

const FILE = join('build', 'demo-report.html');

/** The range is that of the verdicts: they were decided within seconds. */
const BEGIN = `select to_char(min(decided_at) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as begin from promo.verdicts`;

/** @returns the path of the file from the project's root */
export async function makeDemoReport(stage: Stage, client: Client): Promise<string> {
  const { rows } = await client.query<{ begin: string }>(BEGIN);
  const [{ begin } = { begin: '' }] = rows;
  mkdirSync(dirname(join(projectRoot, FILE)), { recursive: true });
  await stage.run('report', '--from', begin, '--out', FILE);
  return FILE;
}
