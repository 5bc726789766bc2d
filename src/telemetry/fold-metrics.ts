/** The metrics of the processes that follow the verdicts: folds, and the publishing of completions. */
import type { MeasuredProcess, MetricMakers } from './metric-makers';

interface Texts {
  readonly help: string;
  readonly action: string;
}
type FoldProcess = Extract<MeasuredProcess, 'rollups' | 'pseudonyms' | 'promotions'>;

/** The texts that differ. */
interface FoldTexts {
  readonly lag: Texts;
  readonly folding: string;
  readonly verdicts: Texts;
  readonly slice: Texts;
  readonly failures: string;
}

function makeFoldMetrics({ counter, gauge, histogram }: MetricMakers, of: FoldProcess, texts: FoldTexts) {
  const { lag, folding, verdicts, slice, failures } = texts;
  return {
    lagSeconds: gauge(`${of}_lag_seconds`, { of, ...lag }),
    folding: gauge(`${of}_folding`, {
      of,
      help: folding,
      action: 'The sum over all processes is 1. Where it is 0 for a minute, see the log.',
    }),
    verdicts: counter(`${of}_verdicts_total`, { of, ...verdicts }),
    sliceSeconds: histogram(`${of}_slice_seconds`, {
      of,
      ...slice,
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    }),
    failures: counter(`${of}_failures_total`, {
      of,
      help: failures,
      action: 'Some come with each failover. Where they continue, the log has the reason.',
    }),
  };
}
export type FoldMetrics = ReturnType<typeof makeFoldMetrics>;

export function makeRollupMetrics(makers: MetricMakers): FoldMetrics {
  return makeFoldMetrics(makers, 'rollups', {
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

export function makePromotionMetrics(makers: MetricMakers): FoldMetrics {
  return makeFoldMetrics(makers, 'promotions', {
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

export function makePseudonymMetrics(makers: MetricMakers) {
  return {
    ...makeFoldMetrics(makers, 'pseudonyms', {
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
    players: makers.counter('pseudonyms_players_total', {
      of: 'pseudonyms',
      help: 'Players who got a pseudonym, without those of a new key.',
      action:
        'None. It follows the number of new players. Where it follows the number of events, a sender writes another player_ref in each.',
    }),
  };
}

export function makeCompletionMetrics({ counter, gauge }: MetricMakers) {
  const of = 'completions';
  return {
    lagSeconds: gauge('completions_lag_seconds', {
      of,
      help: 'Seconds for which the oldest unpublished completion has waited, or the operator that is held back for longest.',
      action:
        'Above a minute: no process of completions works, Kafka is away, or a topic refuses. promo.held_back_completions and the log say which.',
    }),
    publishing: gauge('completions_publishing', {
      of,
      help: '1 where this process publishes completions, 0 where it waits for the end of another one.',
      action: 'The sum over all processes is 1. Where it is 0 for a minute, see the log.',
    }),
    published: counter('completions_published_total', {
      of,
      help: 'Messages that a topic of completions has stored, repeated ones included.',
      action: 'None. It follows the completions of the promotions.',
      labels: ['topic'],
    }),
    refusing: gauge('completion_topic_refuses', {
      of,
      help: '1 for a topic of completions whose last messages were refused, else 0.',
      action:
        'The log has the reason: a missing topic, an ACL without Write, or a limit of the topic. The completions of its operator wait, and no others do.',
      labels: ['topic'],
    }),
    failures: counter('completions_failures_total', {
      of,
      help: 'Steps that failed and are retried. No completion is lost by it.',
      action: 'Some come with each failover. Where they continue, the log has the reason.',
    }),
  };
}
