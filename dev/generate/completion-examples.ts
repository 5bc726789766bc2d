/** schemas/examples/completions: a message about each change of a completion, and one of a leaderboard. */
import { completionMessage, type OutboxEntry } from '../../src/promotion-publishing/completion-message';
import { type CompletionChange, completionIdOf } from '../../src/promotions/completion';

type Varying = Pick<
  OutboxEntry,
  'promotionId' | 'type' | 'window' | 'startsAt' | 'endsAt' | 'playerRef' | 'ordinal'
>;

const TARGET: Varying = {
  ...{ promotionId: 'deposit-100', type: 'deposit_target', window: '2026-11-23' },
  ...{ startsAt: '2026-11-22T23:00:00.000000Z', endsAt: '2026-11-29T23:00:00.000000Z' },
  ...{ playerRef: 'p-1001', ordinal: 1 },
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

const EXAMPLES: Readonly<Record<string, OutboxEntry>> = {
  completed: entry(17, 'completed', 40_960, '2026-11-27T09:00:00.000250Z'),
  confirmed: entry(18, 'confirmed', null, '2026-11-28T09:00:00.000250Z'),
  revoked: entry(19, 'revoked', 57_345, '2026-11-28T11:30:00.471000Z'),
  ranked: entry(20, 'completed', null, '2026-11-30T23:00:00.000000Z', RACE),
};

/** The content of each file, by its name. */
export function completionExamples(): readonly (readonly [name: string, content: string])[] {
  return Object.entries(EXAMPLES).map(([name, example]) => {
    const message: unknown = JSON.parse(String(completionMessage(example).value));
    return [`${name}.json`, `${JSON.stringify(message, null, 2)}\n`];
  });
}
