/**
 * The order of test files in a run: the longest files first, so that none of them is left alone at the end.
 * Jest would order a fresh checkout by size of file, and tests that wait for minutes are not the largest.
 */
const { statSync } = require('node:fs');

/** Files of more than half a minute: the ones that wait between the ones that compute. */
const LONGEST = [
  'stream/throttling',
  'mutants/mutants',
  'stream/security',
  'simulation/simulation',
  'dev/servers',
  'stream/hostile-bytes',
  'dev/demo',
  'faults/postgres',
  'ledger/time-ranges',
  'commands/cli',
  'faults/sweep',
  'ledger/migrations',
  'stream/undecided',
  'stream/kafka-client',
  'ledger/foreign-locks',
  'stream/groups',
  'faults/kafka',
  'webhook/webhook',
  'ledger/hostile-ids',
  'faults/processes',
  'ledger/lookups',
  'ledger/failures',
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
