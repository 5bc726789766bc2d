import { type ConnectionCounts, healthOf } from '../../../src/console/pages/connections';

const FINE: ConnectionCounts = {
  id: 'c',
  accepted: 990,
  rejected: 10,
  skipped: 0,
  same: 5,
  differing: 0,
  newest: null,
  p95: 300,
};

test.each<[string, Partial<ConnectionCounts>]>([
  ['fine', {}],
  ['silent', { accepted: 0, rejected: 0, same: 0, p95: null }],
  ['fine', { accepted: 0, rejected: 0, same: 1, p95: null }],
  ['rejected events', { rejected: 11 }],
  ['rejected events', { rejected: 11, differing: 1 }],
  ['ids used twice', { differing: 1, p95: 301 }],
  ['late', { p95: 300.1 }],
])('a connection is %s with %j', (health, changes) => {
  expect(healthOf({ ...FINE, ...changes }).text).toBe(health);
});
