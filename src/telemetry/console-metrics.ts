/** The metrics of the console alone. */
import { Counter, Histogram, type Registry } from 'prom-client';

/** See LABELS in src/telemetry/metrics.ts. */
type ConsoleLabel = 'page' | 'status';

/** Describes a metric: its name, and the process that serves it. */
type DescribeConsole = <L extends ConsoleLabel = never>(
  name: string,
  about: {
    readonly of: 'console';
    readonly help: string;
    readonly action: string;
    readonly labels?: readonly L[];
  },
) => {
  readonly name: string;
  readonly help: string;
  readonly labelNames: L[];
  readonly registers: Registry[];
};

export function makeConsoleMetrics(describe: DescribeConsole) {
  return {
    consoleRequests: new Counter(
      describe('console_requests_total', {
        of: 'console',
        help: 'Requests to the console, by page and the status of the answer.',
        action:
          '503: Postgres is away, or all places are taken: the log line `cannot show a page of the console` has the error. 429: an address sent many wrong tokens.',
        labels: ['page', 'status'],
      }),
    ),
    consoleWrongTokens: new Counter(
      describe('console_wrong_tokens_total', {
        of: 'console',
        help: 'Wrong tokens that were sent to the console.',
        action:
          'A person mistypes some. Many: the log line `wrong token of the console` has the address. Limit it in front of the console.',
      }),
    ),
    consoleSlowQueries: new Counter(
      describe('console_slow_queries_total', {
        of: 'console',
        help: 'Queries of the console that were ended after 5 s.',
        action:
          'Operators choose long ranges of time, or Postgres is slow: compare transaction_step_seconds of the workers.',
      }),
    ),
    consoleSeconds: new Histogram({
      ...describe('console_request_seconds', {
        of: 'console',
        help: 'Seconds from a request to the console to its answer, by page.',
        action:
          'Where it grows, Postgres is slow, or pages wait for a place: see console_slow_queries_total.',
        labels: ['page'],
      }),
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
    }),
  };
}
