/** The components behind the server of a webhook, which `webhook` and `try` share. */
import type { Logger } from 'pino';
import { type IntakeDeps, makeIntake } from '../../intake/intake';
import { makeRehearse } from '../../intake/rehearsal';
import type { Tracing } from '../../intake/tracing';
import { makeLedger } from '../../ledger/decide-batch';
import { makeReferences } from '../../ledger/reference-store';
import { makeRehearseBatch } from '../../ledger/rehearse';
import { systemClock } from '../../lib/clock';
import type { StoreAccess } from '../../postgres/pool';
import type { Store } from '../../postgres/transaction';
import { makeReconciler, scopeOf } from '../../reconciliation/reconciler';
import type { Metrics } from '../../telemetry/metrics';
import { RECONCILING_PLACES } from '../../webhook/reconciling';
import type { ServerDeps } from '../../webhook/server';
import { postgresComponent } from '../services/components';
import type { Starting } from '../services/lifecycle';
import { observeSteps } from '../services/service';

/** Connections to Postgres for rehearsals. They are opened once the first rehearsal comes. */
const REHEARSALS_AT_ONCE = 2;

export interface DecidingOptions {
  readonly access: StoreAccess;
  /** The connections of decisions. */
  readonly store: Store;
  readonly references: IntakeDeps['references'];
  readonly isPublished: boolean;
  readonly rejectLimit?: IntakeDeps['rejectLimit'];
  readonly tracing: Tracing | null;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** Decisions, rehearsals and reconciliations. The last two have connections of their own to Postgres. */
export async function startDeciding(
  { start }: Pick<Starting, 'start'>,
  { access, store, references, tracing, metrics, logger, ...options }: DecidingOptions,
): Promise<Pick<ServerDeps, 'intake' | 'rehearse' | 'reconciliation'>> {
  const startPool = (of: string, applicationName: string, maxConnections: number) =>
    start(postgresComponent({ ...access, maxConnections, applicationName }, logger, of));
  // Rehearsals wait for one another here, and never take a connection from a decision.
  const rehearsalPool = await startPool('rehearsals', 'promo-intake-rehearsal', REHEARSALS_AT_ONCE);
  const lookUpPool = await startPool('reconciliations', 'promo-intake-reconcile', RECONCILING_PLACES);
  const inForce = makeReferences(lookUpPool);
  return {
    intake: makeIntake({
      ...options,
      ledger: makeLedger(store, { observe: observeSteps(metrics, tracing) }),
      references,
      logger,
      onRetry: (failure) => metrics.retries.inc({ class: failure }),
      now: systemClock.now,
    }),
    rehearse: makeRehearse({
      rehearseBatch: makeRehearseBatch(rehearsalPool),
      references: makeReferences(rehearsalPool),
    }),
    reconciliation: {
      reconciler: makeReconciler(lookUpPool, Date.now),
      scopeOf: async (connectionId) => scopeOf(await inForce.reload(), connectionId),
    },
  };
}
