/** The metrics of the processes that keep results by a fold: the rollups, and the pseudonyms. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

interface Texts {
  readonly help: string;
  readonly action: string;
}
type FoldProcess = 'rollups' | 'pseudonyms' | 'promotions';
type Describe = (
  name: string,
  about: Texts & { readonly of: FoldProcess },
) => { name: string; help: string; labelNames: never[]; registers: Registry[] };

/** The texts that differ. */
interface FoldTexts {
  readonly lag: Texts;
  readonly folding: string;
  readonly verdicts: Texts;
  readonly slice: Texts;
  readonly failures: string;
}

function makeFoldMetrics(describe: Describe, of: FoldProcess, texts: FoldTexts) {
  const { lag, folding, verdicts, slice, failures } = texts;
  return {
    lagSeconds: new Gauge(describe(`${of}_lag_seconds`, { of, ...lag })),
    folding: new Gauge(
      describe(`${of}_folding`, {
        of,
        help: folding,
        action: 'The sum over all processes is 1. Where it is 0 for a minute, see the log.',
      }),
    ),
    verdicts: new Counter(describe(`${of}_verdicts_total`, { of, ...verdicts })),
    sliceSeconds: new Histogram({
      ...describe(`${of}_slice_seconds`, { of, ...slice }),
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    }),
    failures: new Counter(
      describe(`${of}_failures_total`, {
        of,
        help: failures,
        action: 'Some come with each failover. Where they continue, the log has the reason.',
      }),
    ),
  };
}
export type FoldMetrics = ReturnType<typeof makeFoldMetrics>;

export function makeRollupMetrics(describe: Describe): FoldMetrics {
  return makeFoldMetrics(describe, 'rollups', {
    lag: {
      help: 'Seconds since the rollups had every committed verdict.',
      action:
        'Above a minute: no process of the rollups works, or it cannot keep up, or a batch is open for long. The log says which: docs/runbook.md.',
    },
    folding: '1 where this process keeps the rollups, 0 where it waits for the end of another one.',
    verdicts: {
      help: 'Verdicts that were added to the rollups.',
      action: 'None. It follows the verdicts of all workers, and grows faster during a rebuild.',
    },
    slice: {
      help: 'Seconds of adding one slice of verdicts to the rollups.',
      action:
        'Where it grows beside a constant rate, look at refunds of old rounds, and at the disk of Postgres.',
    },
    failures: 'Slices that failed and are retried. No verdict is lost or counted twice by it.',
  });
}

export function makePromotionMetrics(describe: Describe): FoldMetrics {
  return makeFoldMetrics(describe, 'promotions', {
    lag: {
      help: 'Seconds since promotions had counted every committed verdict.',
      action:
        'Above a minute: no process counts promotions, or it cannot keep up, or a batch is open for long. The log says which: docs/runbook.md.',
    },
    folding: '1 where this process counts promotions, 0 where it waits for the end of another one.',
    verdicts: {
      help: 'Verdicts that promotions have looked at.',
      action: 'None. It follows the verdicts of all workers, and grows faster during a rebuild.',
    },
    slice: {
      help: 'Seconds of counting one slice of verdicts.',
      action:
        'Where it grows beside a constant rate, look at refunds of old rounds, at the number of promotions, and at the disk of Postgres.',
    },
    failures: 'Slices that failed and are retried. No event is lost or counted twice by it.',
  });
}

export function makePseudonymMetrics(describe: Describe) {
  return {
    ...makeFoldMetrics(describe, 'pseudonyms', {
      lag: {
        help: 'Seconds since every committed verdict had the pseudonym of its player.',
        action:
          'Above a minute: no process of the pseudonyms works, or it cannot go on, or a batch is open for long. The log says which: docs/runbook.md.',
      },
      folding: '1 where this process computes the pseudonyms, 0 where it waits for the end of another one.',
      verdicts: {
        help: 'Verdicts whose players were looked at.',
        action: 'None. It follows the verdicts of all workers.',
      },
      slice: {
        help: 'Seconds of looking at one slice of verdicts.',
        action: 'Where it grows beside a constant rate, look at the disk of Postgres.',
      },
      failures: 'Slices that failed and are retried. No player is left out by it.',
    }),
    players: new Counter(
      describe('pseudonyms_players_total', {
        of: 'pseudonyms',
        help: 'Players who got a pseudonym, without those of a new key.',
        action:
          'None. It follows the number of new players. Where it follows the number of events, a sender writes another player_ref in each.',
      }),
    ),
  };
}
