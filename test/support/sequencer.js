/**
 * The order of test files in a run: the longest files first, so that none of them is left alone at the end.
 * Jest would order a fresh checkout by size of file, and tests that wait for minutes are not the largest.
 */
const { statSync } = require('node:fs');

/**
 * Files of more than half a minute. The two that start several Kafkas at once are not neighbours. The last ones
 * wait for seconds in a layer that takes seconds.
 */
const LONGEST = [
  'mutants/mutants',
  'commands/cli',
  'dev/demo',
  'webhook/producers',
  'stream/throttling',
  'faults/sweep',
  'stream/hostile-bytes',
  'dev/servers',
  'stream/security',
  'ledger/wallet-calls',
  'simulation/simulation',
  'stores/migrations',
  'stream/clusters',
  'stream/start-refused',
  'faults/postgres',
  'stores/time-ranges',
  'webhook/openapi',
  'stores/dbt',
  'ledger/roles',
  'stream/hostile',
  'webhook/webhook',
  'stream/kafka-refusals',
  'stream/kafka-client',
  'stream/operations',
  'stream/hostile-batches',
  'commands/sandbox-crash',
  'webhook/limits',
  'stream/groups',
  'stores/lookups',
  'faults/processes',
  'ledger/summaries',
  'ledger/rollups-replica',
  'ledger/promotion-fold',
  'faults/log',
  'faults/cells',
  'ledger/failures',
  'ledger/erasure',
  'ledger/hostile-ids',
  'ledger/foreign-locks',
  'stream/operation',
  'stream/undecided',
  'ledger/role-settings',
  'faults/kafka',
  'model/parts-sweep',
  'commands/operator-pages',
  'stream/completions-process',
  'stream/verdict-topics',
  'ledger/store-contract',
  'ledger/promotions-replica',
  'dev/wallet-walkthrough',
  'commands/console',
  'commands/try',
  'ledger/console',
  'commands/sandbox-openapi',
  'commands/slow-reader',
  'unit/webhook/handler',
  'unit/telemetry/health-server',
  'unit/console/server',
];

/** Smaller is earlier. */
function rankOf(path) {
  const rank = LONGEST.findIndex((name) => path.endsWith(`/test/${name}.test.ts`));
  return rank < 0 ? LONGEST.length : rank;
}

module.exports = class {
  sort(tests) {
    return [...tests].sort(
      (a, b) => rankOf(a.path) - rankOf(b.path) || statSync(b.path).size - statSync(a.path).size,
    );
  }

  shard(tests) {
    return tests;
  }

  allFailedTests(tests) {
    return tests;
  }

  cacheResults() {
    // The order does not depend on earlier runs.
  }
};

module.exports.LONGEST = LONGEST;
