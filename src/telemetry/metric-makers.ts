/** Makes the metrics of a process: their texts and labels, and which of them the process serves. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** The values of our metrics' labels. Each label has few values, however many records come. */
export const LABELS = {
  verdict: 'accepted, rejected, skipped or duplicate',
  reason: 'a reason of schemas/VERDICTS.md; of a duplicate that of its first verdict; empty for none',
  kind: 'one of the seven kinds; empty where an event has none of them',
  connection: 'an id of the reference data; empty where a record belongs to none',
  first: 'the transport that brought the event first: kafka or webhook',
  transport: 'the transport that brought it again: kafka or webhook',
  content: 'same or differs',
  class:
    'With `undecided` the partition waits, or the webhook answers 503. With `again` the batch met other writers and is decided again at once. With `data` the batch is halved to find the event that fails',
  cause:
    'Postgres (`store`). A topic that refuses verdicts or dead letters (`kafka`). The schema registry (`registry`). A paused topic (`limit`). Missing or unreadable reference data (`reference`). Anything else (`worker`)',
  step: 'Get a connection of the pool (`connect`). Begin, lock the partitions, find decided events, and lock the rounds of a small batch (`find`). Lock the rounds of a large batch (`lock`). Apply the rules (`decide`). Write the rows and commit (`write`)',
  result: 'hit; miss: the registry was asked; failure: the registry did not answer',
  request: 'fetch, produce, or other: joins, heartbeats, commits and look-ups',
  status: 'the HTTP status of the answer; broken_off where the sender aborted the request',
  token: 'the first words of the message of a refusal, up to its colon, such as signature_invalid',
  why: 'Another connection took its place (`full`, `address`). The sender sent or read too slowly (`late_head`, `late_body`, `unread`). Too many requests at once (`pipelined`). A refused body did not end (`drain`). The bytes are no request (`tls`, `http2`, `connect`, `not_http`, `large_head`)',
  signed: 'yes, no',
  page: 'a path of the console; other for any other path, and for a request without a session',
  topic: 'a topic of the reference data; of publishing: a topic of verdicts, or of completions',
  partition: 'the number of a partition of this worker',
  state: 'deciding; or undecided: the partition waits, and more workers would not help',
  version: 'of promo-intake',
  node: 'of Node.js',
} as const;
type Label = keyof typeof LABELS;

export const OWN_PREFIX = 'promo_intake_';

/** The texts of a metric, one sentence each: its meaning, and the operator's action when it moves. */
interface About<L extends Label> {
  readonly help: string;
  readonly action: string;
  readonly labels?: readonly L[];
  /** The process that serves it; absent where worker and webhook do, and `each` where every process does. */
  readonly of?: MeasuredProcess | 'each';
}

/** The process that is measured. */
export type MeasuredProcess =
  | 'worker'
  | 'webhook'
  | 'console'
  | 'rollups'
  | 'pseudonyms'
  | 'promotions'
  | 'completions';

/** The processes that decide events. */
const INTAKE: readonly MeasuredProcess[] = ['worker', 'webhook'];

/** @param role the process whose metrics are served; absent for all */
export function makeMetricMakers(role: MeasuredProcess | undefined) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const actions = new Map<string, string>();
  const describe = <L extends Label>(name: string, { help, action, labels = [], of }: About<L>) => {
    actions.set(OWN_PREFIX + name, action);
    const isServed =
      role === undefined || of === 'each' || of === role || (of === undefined && INTAKE.includes(role));
    return { name: OWN_PREFIX + name, help, labelNames: [...labels], registers: isServed ? [registry] : [] };
  };
  return {
    registry,
    /** The operator's action by the name of the metric. */
    actions,
    counter: <L extends Label = never>(name: string, about: About<L>) => new Counter(describe(name, about)),
    gauge: <L extends Label = never>(name: string, about: About<L>) => new Gauge(describe(name, about)),
    histogram: <L extends Label = never>(name: string, about: About<L> & { readonly buckets: number[] }) =>
      new Histogram({ ...describe(name, about), buckets: about.buckets }),
  };
}
export type MetricMakers = Pick<ReturnType<typeof makeMetricMakers>, 'counter' | 'gauge' | 'histogram'>;
