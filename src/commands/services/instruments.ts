/** The metrics and the log of a service, and the name of its process. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { packageVersion } from '../../cli/package-version';
import { makeLogger } from '../../telemetry/logger';
import type { MeasuredProcess } from '../../telemetry/metric-makers';
import { type Metrics, makeMetrics } from '../../telemetry/metrics';

export interface Instruments {
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** Of this program. */
  readonly version: string;
}

export async function makeInstruments(service: MeasuredProcess, logLevel: string): Promise<Instruments> {
  const metrics = makeMetrics(service);
  const logger = makeLogger(logLevel, 'stdout', () => metrics.logLinesDropped.inc());
  const version = await packageVersion();
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  return { metrics, logger, version };
}

/** A name for the lease of this process, for people who look for it. No two processes share it. */
export function leaseHolder(): string {
  return `${hostname()} ${process.pid} ${randomUUID().slice(0, 8)}`;
}
