/**
 * Rehearsals: a request is judged and decided as always, and nothing is stored (docs/rules.md, W9). No retry,
 * no panic and no limit: a failure of any kind leaves the whole request without an answer.
 */

import type { RehearseBatch } from '../ledger/rehearse';
import { asError } from '../lib/errors';
import type { Envelope, WebhookRequest } from './delivery';
import type { IntakeResult } from './intake';
import { completeAnswers } from './judge-and-decide';
import { type Prepared, prepare } from './prepare';
import { type References, withReference } from './references';

export interface RehearsalDeps {
  readonly rehearseBatch: RehearseBatch;
  readonly references: References;
}

/** Decides the events of one request without storing anything. Never throws. */
export type Rehearse = (request: WebhookRequest, envelopes: readonly Envelope[]) => Promise<IntakeResult>;

export function makeRehearse({ rehearseBatch, references }: RehearsalDeps): Rehearse {
  return async (request, envelopes) => {
    try {
      const answers = await withReference(references, false, async (reference) => {
        const prepared: Prepared = { items: [], unanswered: [] };
        prepare(prepared, reference, request, envelopes, false);
        const decisions = await rehearseBatch({ items: prepared.items, reference });
        return completeAnswers(prepared.unanswered, decisions);
      });
      return { answers, undecided: null };
    } catch (error) {
      return { answers: [], undecided: asError(error) };
    }
  };
}
