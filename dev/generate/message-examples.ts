/**
 * schemas/examples/verdicts and schemas/examples/completions: a message for each verdict and for a refund,
 * one about each change of a completion, and one of a leaderboard.
 */
import type { Fault, Fields, Kind } from '../../src/domain/event/event';
import { currencyOf } from '../../src/domain/event/money';
import type { Connection } from '../../src/domain/reference';
import type { Decision } from '../../src/domain/verdict/decide';
import { ACCEPTED, outcomeOf, type Reason } from '../../src/domain/verdict/reasons';
import { completionMessage, type OutboxEntry } from '../../src/promotion-publishing/completion-message';
import { type CompletionChange, completionIdOf } from '../../src/promotions/completion';
import type { PublishedAnswer } from '../../src/publishing/published-answer';
import { VerdictWriter } from '../../src/publishing/verdict-message';

const CONNECTION: Connection = {
  no: 1,
  id: 'acme-stream',
  transport: 'kafka',
  topic: 'promo.event.v1',
  operator: { id: 'acme', active: true, brands: new Map(), catalogue: new Map() },
  feedNo: 1,
  feedId: 'acme',
  onlyBrand: undefined,
};
const EUR = currencyOf('EUR')!;
/** 2026-11-27T09:00:00.000250Z */
const DECIDED_AT = 1_795_770_000_000_250n;

const fieldsOf = (kind: Kind, amountMinor: bigint | null): Fields => ({
  kind,
  brand: 'main',
  playerRef: 'p-1001',
  roundId: 'r-1010',
  gameId: 'g1',
  amountMinor,
  currency: EUR,
  occurredAtMicros: null,
});
const decided = (reason: Reason | null): Decision => ({
  type: 'decided',
  outcome: reason === null ? ACCEPTED : outcomeOf(reason),
  counted: reason === null,
  redelivered: false,
});
const fault = (reason: Reason, field: string, detail: string): readonly Fault[] => [
  { reason, field, detail },
];

interface Example extends Pick<PublishedAnswer, 'eventId' | 'decision' | 'reversed'> {
  readonly fields: Fields;
  readonly faults?: readonly Fault[];
}

const VERDICTS: Readonly<Record<string, Example>> = {
  accepted: { eventId: 'e-1', fields: fieldsOf('bet', 1_050n), decision: decided(null) },
  rejected: {
    eventId: 'e-2',
    fields: fieldsOf('bet', null),
    decision: decided('bad_amount'),
    faults: fault('bad_amount', '/amount', 'amount "1,50" is not a plain decimal such as "10.50"'),
  },
  skipped: {
    eventId: 'e-3',
    fields: fieldsOf('bet', 5n),
    decision: decided('below_min_bet'),
    faults: fault('below_min_bet', '/amount', "the bet of 0.05 EUR is below the brand's minimum of 0.10 EUR"),
  },
  duplicate: {
    eventId: 'e-1',
    fields: fieldsOf('bet', 1_100n),
    decision: {
      type: 'duplicate',
      first: ACCEPTED,
      firstTransport: 'kafka',
      contentDiffers: true,
      redelivered: false,
    },
  },
  refund: {
    eventId: 'e-4',
    fields: fieldsOf('refund', 1_050n),
    decision: decided(null),
    reversed: [{ currency: EUR, bet: 1_050n, win: 2_500n, settled: 1_050n }],
  },
};

/** The content of each file of schemas/examples/verdicts, by its name. */
export function verdictExamples(): readonly (readonly [name: string, content: string])[] {
  const writer = new VerdictWriter({ topic: 'promo.event.v1', partition: 3 });
  return Object.entries(VERDICTS).map(([name, example], index) => {
    const message = writer.encode({
      faults: [],
      connection: CONNECTION,
      decidedAt: DECIDED_AT,
      recordKey: 'p-1001',
      ...example,
      offset: 17 + index,
    });
    if (message === null) throw new Error(`${name} has no message`);
    const { bytes, keyTo } = message;
    const value = bytes.toString('utf8', bytes.indexOf('{', keyTo), bytes.lastIndexOf('}') + 1);
    return [`${name}.json`, `${JSON.stringify(JSON.parse(value), null, 2)}\n`];
  });
}

type Varying = Pick<
  OutboxEntry,
  'promotionId' | 'type' | 'window' | 'startsAt' | 'endsAt' | 'playerRef' | 'ordinal'
>;

const TARGET: Varying = {
  promotionId: 'deposit-100',
  type: 'deposit_target',
  window: '2026-11-23',
  startsAt: '2026-11-22T23:00:00.000000Z',
  endsAt: '2026-11-29T23:00:00.000000Z',
  playerRef: 'p-1001',
  ordinal: 1,
};
const RACE: Varying = {
  ...TARGET,
  promotionId: 'race',
  type: 'leaderboard',
  playerRef: 'p-2002',
  ordinal: 3,
};

function entry(
  entryNo: number,
  change: CompletionChange,
  changeNo: number | null,
  changedAt: string,
  of: Varying = TARGET,
): OutboxEntry {
  const key = { operatorId: 'acme', promotionId: of.promotionId, version: 1, playerRef: of.playerRef };
  const completionId = completionIdOf({ ...key, window: of.window, ordinal: of.ordinal, attempt: 1 });
  return { ...of, ...key, completionId, entryNo, operatorNo: 1, change, attempt: 1, changeNo, changedAt };
}

const COMPLETIONS: Readonly<Record<string, OutboxEntry>> = {
  completed: entry(17, 'completed', 40_960, '2026-11-27T09:00:00.000250Z'),
  confirmed: entry(18, 'confirmed', null, '2026-11-28T09:00:00.000250Z'),
  revoked: entry(19, 'revoked', 57_345, '2026-11-28T11:30:00.471000Z'),
  ranked: entry(20, 'completed', null, '2026-11-30T23:00:00.000000Z', RACE),
};

/** The content of each file of schemas/examples/completions, by its name. */
export function completionExamples(): readonly (readonly [name: string, content: string])[] {
  return Object.entries(COMPLETIONS).map(([name, example]) => {
    const message: unknown = JSON.parse(String(completionMessage(example).value));
    return [`${name}.json`, `${JSON.stringify(message, null, 2)}\n`];
  });
}
