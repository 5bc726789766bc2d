/** The metrics of the console alone. */
import type { MetricMakers } from './metric-makers';

export function makeConsoleMetrics({ counter, histogram }: MetricMakers) {
  return {
    consoleRequests: counter('console_requests_total', {
      of: 'console',
      help: 'Requests to the console, by page and the status of the answer.',
      action:
        '503: Postgres is away, or all places are taken: the log line `cannot show a page of the console` has the error. 429: an address sent many wrong tokens.',
      labels: ['page', 'status'],
    }),
    consoleWrongTokens: counter('console_wrong_tokens_total', {
      of: 'console',
      help: 'Wrong tokens that were sent to the console.',
      action:
        'A person mistypes some. Many: the log line `wrong token of the console` has the address. Limit it in front of the console.',
    }),
    consoleSlowQueries: counter('console_slow_queries_total', {
      of: 'console',
      help: 'Queries of the console that were ended after 5 s.',
      action:
        'Operators choose long ranges of time, or Postgres is slow: compare transaction_step_seconds of the workers.',
    }),
    consoleSeconds: histogram('console_request_seconds', {
      of: 'console',
      help: 'Seconds from a request to the console to its answer, by page.',
      action: 'Where it grows, Postgres is slow, or pages wait for a place: see console_slow_queries_total.',
      labels: ['page'],
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
    }),
  };
}
