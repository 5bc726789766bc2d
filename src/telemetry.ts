/**
 * What the outside sees of a process: logs, metrics, health. Neither holds a player_ref or a payload at any level.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino, { type Logger } from 'pino';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export function makeLogger(level: string): Logger {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  });
}

/** The closed list of metrics, a sentence each. */
export function makeMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    verdicts: new Counter({
      name: 'promo_intake_verdicts_total',
      help: 'Deliveries answered, by verdict, reason, kind and connection.',
      labelNames: ['verdict', 'reason', 'kind', 'connection'],
      registers,
    }),
    redeliveries: new Counter({
      name: 'promo_intake_redeliveries_total',
      help: 'Records that were read again and answered as before.',
      registers,
    }),
    deadLetters: new Counter({
      name: 'promo_intake_dead_letters_total',
      help: 'Records sent to the dead-letter topic, by reason.',
      labelNames: ['reason'],
      registers,
    }),
    batchEvents: new Histogram({
      name: 'promo_intake_batch_events',
      help: 'Events in a decided batch.',
      buckets: [1, 10, 100, 500, 1000, 2000, 4000, 8000],
      registers,
    }),
    batchSeconds: new Histogram({
      name: 'promo_intake_batch_seconds',
      help: 'Seconds from taking up a batch to its committed transaction.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    retries: new Counter({
      name: 'promo_intake_retries_total',
      help: 'Waits of undecided partitions.',
      registers,
    }),
    undecidedPartitions: new Gauge({
      name: 'promo_intake_undecided_partitions',
      help: 'Partitions that wait because their next record cannot be decided now.',
      registers,
    }),
    pausedPartitions: new Gauge({
      name: 'promo_intake_paused_partitions',
      help: 'Undecided partitions whose topic is paused, since too many of its events would be rejected.',
      labelNames: ['topic'],
      registers,
    }),
  };
}

export type Metrics = ReturnType<typeof makeMetrics>;

export interface Health {
  /** False ends the pod: only a restart helps. */
  live(): boolean;
  /** False takes the pod out of service. */
  ready(): boolean;
  /** What somebody has to act on though the pod is in service, a sentence each. */
  notes(): readonly string[];
}

const REQUEST_TIMEOUT_MS = 5_000;

/** Serves /livez, /readyz and /metrics. @returns the port, which differs from `port` where that is 0 */
export async function serveHealth(
  port: number,
  health: Health,
  metrics: Metrics,
): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    const answer = (status: number, body: string, type = 'text/plain; charset=utf-8') => {
      response.writeHead(status, { 'content-type': type }).end(body);
    };
    const path = request.url?.split('?')[0];
    if (request.method !== 'GET') answer(405, 'only GET\n');
    else if (path === '/livez') answer(health.live() ? 200 : 503, health.live() ? 'live\n' : 'stuck\n');
    else if (path === '/readyz')
      answer(
        health.ready() ? 200 : 503,
        [health.ready() ? 'ready' : 'not ready', ...health.notes(), ''].join('\n'),
      );
    else if (path === '/metrics') {
      metrics.registry.metrics().then(
        (text) => answer(200, text, metrics.registry.contentType),
        (error: unknown) => answer(500, `${error instanceof Error ? error.message : 'metrics failed'}\n`),
      );
    } else answer(404, 'paths: /livez /readyz /metrics\n');
  });
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, resolve);
  });
  return { port: portOf(server), close: () => close(server) };
}

function portOf(server: Server): number {
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('the health server has no port');
  return address.port;
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
}
