/** Files of promotions: the examples, a promotion of each type with every key, and their published schema. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { isObject } from '../../src/lib/json';
import { parsePromotions } from '../../src/promotion-file/promotion-file';
import type { PromotionType } from '../../src/promotions/definition';
import { parseReference } from '../../src/reference-file/reference-file';

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
export const REFERENCE_TEXT = read('schemas/examples/reference.yaml');
export const EXAMPLES = read('schemas/examples/promotions.yaml');

export function referenceOf(text: string) {
  const parsed = parseReference(text, 'reference.yaml');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.document;
}
export const REFERENCE = referenceOf(REFERENCE_TEXT);

export const schema: unknown = JSON.parse(read('schemas/promotions.schema.json'));
if (!isObject(schema)) throw new Error('the schema is no object');
export const isValid = new Ajv2020({ allErrors: true, strict: false }).compile(schema);

export const faultsOf = (text: string, reference = REFERENCE) => {
  const parsed = parsePromotions(text, 'p.yaml', reference);
  return 'faults' in parsed ? parsed.faults : [];
};
export const TYPES = {
  login_streak: { days: 3 },
  deposit_target: { target: { EUR: '5.00' } },
  withdrawal_target: { target: { EUR: '5.00' } },
  turnover_target: { target: { EUR: '5.00' }, counts: 'settled', games: ['g1'], min_amount: { EUR: '1' } },
  bet_count: { target: 3, games: ['g1'], min_amount: { EUR: '1' } },
  round_count: { target: 3, games: ['g1'], min_amount: { EUR: '1' } },
  collect_items: {
    items: [{ id: 'a', games: ['g1'], min_amount: { EUR: '1' }, need: 2, per: { EUR: '1' } }],
  },
  leaderboard: {
    points: [{ counts: 'bet', games: ['g1'], min_amount: { EUR: '1' }, per: { EUR: '1' }, points: 2 }],
    keep_ranks: 7,
  },
} satisfies Readonly<Record<PromotionType, object>>;
export const COMMON = {
  id: 'x',
  operator: 'acme',
  brands: ['main'],
  from: '2026-12-01',
  to: '2027-01-01T06:00+01:00',
  time_zone: 'Europe/Warsaw',
  window: { every: 'month', starts: 2 },
  accepts_late: 'P7D',
  confirm_after: 'PT24H',
};
export const fullOf = (type: string, own: object): Record<string, unknown> => ({
  ...COMMON,
  type,
  ...(type !== 'leaderboard' && { completes: 'each' }),
  ...own,
});
export const documentOf = (promotion: unknown) => ({ promotions: [promotion] });
export const isRead = (promotion: unknown) => faultsOf(JSON.stringify(documentOf(promotion))).length === 0;
