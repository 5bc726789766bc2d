/** The metrics of the process that keeps the rollups. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type Describe = (
  name: string,
  about: { readonly of: 'rollups'; readonly help: string; readonly action: string },
) => { name: string; help: string; labelNames: never[]; registers: Registry[] };

export function makeRollupMetrics(describe: Describe) {
  return {
    rollupsLagSeconds: new Gauge(
      describe('rollups_lag_seconds', {
        of: 'rollups',
        help: 'Seconds since the rollups had every committed verdict.',
        action:
          'Above a minute: no process of the rollups works, or it cannot keep up, or a batch is open for long. The log says which: docs/runbook.md.',
      }),
    ),
    rollupsFolding: new Gauge(
      describe('rollups_folding', {
        of: 'rollups',
        help: '1 where this process keeps the rollups, 0 where it waits for the end of another one.',
        action: 'The sum over all processes is 1. Where it is 0 for a minute, see the log.',
      }),
    ),
    rollupsVerdicts: new Counter(
      describe('rollups_verdicts_total', {
        of: 'rollups',
        help: 'Verdicts that were added to the rollups.',
        action: 'None. It follows the verdicts of all workers, and grows faster during a rebuild.',
      }),
    ),
    rollupsSliceSeconds: new Histogram({
      ...describe('rollups_slice_seconds', {
        of: 'rollups',
        help: 'Seconds of adding one slice of verdicts to the rollups.',
        action:
          'Where it grows beside a constant rate, look at refunds of old rounds, and at the disk of Postgres.',
      }),
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    }),
    rollupsFailures: new Counter(
      describe('rollups_failures_total', {
        of: 'rollups',
        help: 'Slices that failed and are retried. No verdict is lost or counted twice by it.',
        action: 'Some come with each failover. Where they continue, the log has the reason.',
      }),
    ),
  };
}
