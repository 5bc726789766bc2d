/** The metrics of the process that publishes completions. */
import { Counter, Gauge, type Registry } from 'prom-client';

interface Described {
  name: string;
  help: string;
  labelNames: 'topic'[];
  registers: Registry[];
}
type Describe = (
  name: string,
  about: {
    readonly help: string;
    readonly action: string;
    readonly of: 'completions';
    readonly labels?: readonly 'topic'[];
  },
) => Described;

export function makeCompletionMetrics(describe: Describe) {
  const of = 'completions';
  return {
    lagSeconds: new Gauge(
      describe('completions_lag_seconds', {
        of,
        help: 'Seconds for which the oldest unpublished completion has waited, or the operator that is held back for longest.',
        action:
          'Above a minute: no process of completions works, Kafka is away, or a topic refuses. promo.held_back_completions and the log say which.',
      }),
    ),
    publishing: new Gauge(
      describe('completions_publishing', {
        of,
        help: '1 where this process publishes completions, 0 where it waits for the end of another one.',
        action: 'The sum over all processes is 1. Where it is 0 for a minute, see the log.',
      }),
    ),
    published: new Counter(
      describe('completions_published_total', {
        of,
        help: 'Messages that a topic of completions has stored, repeated ones included.',
        action: 'None. It follows the completions of the promotions.',
        labels: ['topic'],
      }),
    ),
    refusing: new Gauge(
      describe('completion_topic_refuses', {
        of,
        help: '1 for a topic of completions whose last messages were refused, else 0.',
        action:
          'The log has the reason: a missing topic, an ACL without Write, or a limit of the topic. The completions of its operator wait, and no others do.',
        labels: ['topic'],
      }),
    ),
    failures: new Counter(
      describe('completions_failures_total', {
        of,
        help: 'Steps that failed and are retried. No completion is lost by it.',
        action: 'Some come with each failover. Where they continue, the log has the reason.',
      }),
    ),
  };
}
