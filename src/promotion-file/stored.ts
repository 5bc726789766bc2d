/** Promotions in the form that a store keeps and exports: the structure of a file, with its defaults. */
import type { Points, PromotionDefinition, PromotionDocument, Stakes } from '../promotions/definition';
import { FaultReport } from '../reference-file/report';
import { treeOf } from '../reference-file/tree';
import { PromotionReader } from './promotion-reader';

/** The stored form of a document. As JSON it is a file that `promotions check` takes. */
export function toPromotionsJson(document: PromotionDocument): { promotions: object[] } {
  return { promotions: document.promotions.map(definitionJson) };
}

function definitionJson(definition: PromotionDefinition): object {
  const { id, operator, brands, type, timeZone, from, to, window, acceptsLate, confirmAfter } = definition;
  return {
    ...{ id, operator, brands, type, from, to, time_zone: timeZone, window },
    ...ownJson(definition),
    ...{ accepts_late: acceptsLate, confirm_after: confirmAfter },
  };
}

function ownJson(definition: PromotionDefinition): object {
  switch (definition.type) {
    case 'login_streak':
      return { days: definition.days, completes: definition.completes };
    case 'deposit_target':
    case 'withdrawal_target':
      return { target: definition.target, completes: definition.completes };
    case 'turnover_target': {
      const { counts, target, completes } = definition;
      return { counts, ...stakesJson(definition), target, completes };
    }
    case 'bet_count':
    case 'round_count':
      return { ...stakesJson(definition), target: definition.target, completes: definition.completes };
    case 'collect_items': {
      const { items, completes } = definition;
      return {
        items: items.map((item) => ({ id: item.id, ...stakesJson(item), need: item.need, per: item.per })),
        completes,
      };
    }
    case 'leaderboard':
      return { points: definition.points.map(pointsJson), keep_ranks: definition.keepRanks };
  }
}

function pointsJson(each: Points): object {
  return { counts: each.counts, ...stakesJson(each), per: each.per, points: each.points };
}

function stakesJson({ games, minAmount }: Stakes): object {
  return { games, min_amount: minAmount };
}

/** Stored promotions that break a rule of this version: a newer version wrote them, or they were edited. */
export class UnreadablePromotions extends RangeError {
  override readonly name = 'UnreadablePromotions';
}

/**
 * Reads a stored document, by all the rules of a file.
 *
 * @throws UnreadablePromotions
 */
export function fromPromotionsJson(json: unknown): PromotionDocument {
  const report = new FaultReport('');
  const document = new PromotionReader(report, new FaultReport(''), undefined).read(treeOf(json));
  if (report.isEmpty()) return document;
  throw new UnreadablePromotions(`the stored promotions are not valid: ${report.summary()}`);
}
