/**
 * Rehearsals: a request is judged and decided as always, and nothing is stored (docs/rules.md, W9). No retry,
 * no panic and no limit: a failure of any kind leaves the whole request without an answer.
 */

import { StaleReference } from '../ledger/failures';
import type { RehearseBatch } from '../ledger/rehearse';
import { asError } from '../lib/errors';
import type { Envelope, WebhookRequest } from './delivery';
import type { IntakeResult } from './intake';
import type { References } from './judge-and-decide';
import { completeAnswers, type Prepared, prepare } from './prepare';
import { MAY_BE_ADDED, NoReference } from './undecided';

export interface RehearsalDeps {
  readonly rehearseBatch: RehearseBatch;
  readonly references: References;
}

/** Decides the events of one request without storing anything. Never throws. */
export type Rehearse = (request: WebhookRequest, envelopes: readonly Envelope[]) => Promise<IntakeResult>;

/** Tries after new reference data. */
const MAX_TRIES = 5;

export function makeRehearse({ rehearseBatch, references }: RehearsalDeps): Rehearse {
  return async (request, envelopes) => {
    let reload = false;
    for (let tries = 1; ; tries++) {
      try {
        const reference = await (reload ? references.reload() : references.current());
        if (reference.version === 0) throw new NoReference('no reference data has been applied yet');
        const prepared: Prepared = { items: [], unanswered: [] };
        prepare(prepared, reference, request, envelopes, false);
        const decisions = await rehearseBatch({ items: prepared.items, reference });
        return { answers: completeAnswers(prepared.unanswered, decisions), undecided: null };
      } catch (error) {
        // As in judge-and-decide.ts: missing data may have been added, and a load may have begun before.
        const isMissing = MAY_BE_ADDED.some((type) => error instanceof type);
        reload = error instanceof StaleReference || (isMissing && tries <= 2);
        if (!reload || tries >= MAX_TRIES) return { answers: [], undecided: asError(error) };
      }
    }
  };
}
