import { renderDashboard } from '../../dev/generate/dashboard-picture';
import { dashboardFile, driftOf, GENERATE_TABLES_COMMAND, tablesFile } from '../../dev/generate/files';
import { renderTables } from '../../dev/generate/tables';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { runMigrations } from '../../src/ledger/migrate';
import { type FreshDatabase, freshDatabase } from '../support/servers';

let database: FreshDatabase;
let content: string;
beforeAll(async () => {
  database = await freshDatabase();
  await runMigrations(database.url);
  content = await renderTables(database.url, GENERATE_TABLES_COMMAND);
});
afterAll(() => database.drop());

test('docs/tables.md agrees with the migrations', () => {
  expect(driftOf([tablesFile(content)], ROOT)).toEqual([]);
});

test('the picture of the dashboard has the answers of its queries', async () => {
  expect(driftOf([dashboardFile(await renderDashboard(database.url))], ROOT)).toEqual([]);
});

test('every view for analysts, and each of its columns, has a comment', () => {
  const views = content.split('\n## ')[1]?.split('\n### ').slice(1) ?? [];
  expect(views.map((view) => view.split('\n')[0])).toEqual(
    [
      ...[
        'anomalies',
        'attributions',
        'cell',
        'completion_publishing',
        'completions',
        'connections',
        'deliveries',
        'erasures',
        'events',
        'facts',
        'faults',
        'former_player_ids',
        'held_back_completions',
        'ledger',
      ],
      ...[
        'ledger_daily',
        'migrations',
        'miss_reasons',
        'months',
        'moves',
        'operations',
        'partitions',
        'player_ids',
        'player_ledger_daily',
        'players_daily',
        'promotion_coverage',
        'promotion_documents',
        'promotion_progress',
        'promotion_versions',
        'promotions',
        'pseudonym_coverage',
      ],
      ...[
        'reasons',
        'records_without_verdict',
        'reference_versions',
        'rollup_coverage',
        'round_details',
        'rounds',
        'test_deliveries',
        'test_verdicts',
        'verdicts',
        'verdicts_hourly',
        'wallet_backlog',
        'wallet_calls',
      ],
    ].map((name) => `promo.${name}`),
  );
  for (const view of views) {
    const [name, , comment = ''] = view.split('\n');
    expect([name, comment]).toEqual([name, expect.stringMatching(/^[A-Z].+\.$/)]);
    expect([name, view.match(/^\| `\w+` \| [\w ]+ \| *\|$/gm)]).toEqual([name, null]);
  }
});
