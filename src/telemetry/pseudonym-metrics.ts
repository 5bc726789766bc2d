/** The metrics of the process that computes pseudonyms. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type Describe = (
  name: string,
  about: { readonly of: 'pseudonyms'; readonly help: string; readonly action: string },
) => { name: string; help: string; labelNames: never[]; registers: Registry[] };

export function makePseudonymMetrics(describe: Describe) {
  return {
    pseudonymsLagSeconds: new Gauge(
      describe('pseudonyms_lag_seconds', {
        of: 'pseudonyms',
        help: 'Seconds since every committed verdict had the pseudonym of its player.',
        action:
          'Above a minute: no process of the pseudonyms works, or it cannot go on, or a batch is open for long. The log says which: docs/runbook.md.',
      }),
    ),
    pseudonymsFolding: new Gauge(
      describe('pseudonyms_folding', {
        of: 'pseudonyms',
        help: '1 where this process computes the pseudonyms, 0 where it waits for the end of another one.',
        action: 'The sum over all processes is 1. Where it is 0 for a minute, see the log.',
      }),
    ),
    pseudonymsPlayers: new Counter(
      describe('pseudonyms_players_total', {
        of: 'pseudonyms',
        help: 'Players who got a pseudonym, without those of a new key.',
        action:
          'None. It follows the number of new players. Where it follows the number of events, a sender writes another player_ref in each.',
      }),
    ),
    pseudonymsVerdicts: new Counter(
      describe('pseudonyms_verdicts_total', {
        of: 'pseudonyms',
        help: 'Verdicts whose players were looked at.',
        action: 'None. It follows the verdicts of all workers.',
      }),
    ),
    pseudonymsSliceSeconds: new Histogram({
      ...describe('pseudonyms_slice_seconds', {
        of: 'pseudonyms',
        help: 'Seconds of looking at one slice of verdicts.',
        action: 'Where it grows beside a constant rate, look at the disk of Postgres.',
      }),
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    }),
    pseudonymsFailures: new Counter(
      describe('pseudonyms_failures_total', {
        of: 'pseudonyms',
        help: 'Slices that failed and are retried. No player is left out by it.',
        action: 'Some come with each failover. Where they continue, the log has the reason.',
      }),
    ),
  };
}
