/**
 * The rules of the file of promotions: the keys and values that it must have and must not have
 * (docs/rules.md, P19).
 *
 * schemas/promotions.schema.json describes the same structure for editors.
 */
import type { OperatorEntry, ReferenceDocument } from '../domain/reference';
import { quoted } from '../lib/printable';
import { DAY_MS, TimeZone } from '../lib/time-zone';
import { makeLocalDays } from '../promotions/calendar';
import {
  PERIODS,
  PROMOTION_TYPES,
  type PromotionDefinition,
  type PromotionDocument,
  type PromotionType,
  type Repetition,
  STAKE_KINDS,
  type Stakes,
  WEEKDAYS,
} from '../promotions/definition';
import { readBound } from '../promotions/local-time';
import { checkBrand, checkName } from '../reference-file/checks';
import { type Mapping, type Slot, suggestion } from '../reference-file/reader';
import { type FaultReport, type FilePlace, WHOLE_FILE } from '../reference-file/report';
import type { Tree } from '../reference-file/tree';
import { ALL_KEYS, ENTRY_KEYS, FILE_LIMITS, keysOf, OWN_KEYS } from './keys';
import { ValueReader } from './values';

/** Why a type has no such key. */
const NOT_OF_ACCOUNTS = 'Remove it: account events have no game and take no minimum.';

/** The days of the longest window. */
const MOST_DAYS_OF: Readonly<Record<Repetition['every'], number>> = { day: 1, week: 7, month: 31 };

/** Reads one document. The result is valid only where no fault was reported. */
export class PromotionReader {
  private readonly values: ValueReader;
  /** The first place of each id, by `promotionKey`. */
  private readonly ids = new Map<string, FilePlace>();
  private readonly operators: ReadonlyMap<string, OperatorEntry> | undefined;

  constructor(
    private readonly faults: FaultReport,
    private readonly warnings: FaultReport,
    reference: ReferenceDocument | undefined,
  ) {
    this.values = new ValueReader(faults);
    this.operators = reference && new Map(reference.operators.map((operator) => [operator.id, operator]));
  }

  read(tree: Tree): PromotionDocument {
    const top = this.values.mapping({ path: '', at: tree.at, tree }, ['promotions']);
    if (top === undefined) return { promotions: [] };
    const remedy = 'List the promotions, or write "promotions: []".';
    const list = this.values.required(top, 'promotions', remedy);
    return { promotions: this.values.list(list, (item) => this.promotion(item)) };
  }

  /** The place of a promotion that was read, by its `promotionKey`. */
  placeOf(key: string): FilePlace {
    return this.ids.get(key) ?? WHOLE_FILE;
  }

  private promotion(slot: Slot): PromotionDefinition | undefined {
    const typeSlot = this.typeSlotOf(slot);
    const type = PROMOTION_TYPES.find(
      (each) => typeSlot?.tree?.kind === 'leaf' && typeSlot.tree.value === each,
    );
    const node = this.values.mapping(slot, ALL_KEYS);
    if (node === undefined) return undefined;
    if (type === undefined) {
      this.values.word(
        this.values.required(node, 'type', `Write one of ${PROMOTION_TYPES.join(', ')}.`),
        PROMOTION_TYPES,
      );
    } else this.refuseOthers(node, type);
    const common = this.common(node, type);
    if (type === undefined) return undefined;
    const completes = this.values.word(node.get('completes'), ['once', 'each'] as const) ?? 'once';
    switch (type) {
      case 'login_streak': {
        const days = this.number(node, 'days', 1, FILE_LIMITS.days, 'the number of days in a row, such as 7');
        if (days === undefined) return undefined;
        this.warnOfStreak(node, days, common);
        return { ...common, type, completes, days };
      }
      case 'deposit_target':
      case 'withdrawal_target': {
        const target = this.target(node);
        return target === undefined ? undefined : { ...common, type, completes, target };
      }
      case 'turnover_target': {
        const target = this.target(node);
        const counts = this.values.word(node.get('counts'), STAKE_KINDS) ?? 'bet';
        const stakes = this.stakes(node, common.operator);
        return target === undefined ? undefined : { ...common, type, completes, counts, ...stakes, target };
      }
      case 'bet_count':
      case 'round_count': {
        const meaning = `the number of ${type === 'bet_count' ? 'bets' : 'rounds'}, such as 100`;
        const target = this.number(node, 'target', 1, FILE_LIMITS.events, meaning);
        const stakes = this.stakes(node, common.operator);
        return target === undefined ? undefined : { ...common, type, completes, ...stakes, target };
      }
      case 'collect_items': {
        const seen = new Map<string, FilePlace>();
        const remedy = 'List the items, such as { id: ruby, games: [g1], need: 3 }.';
        const items = this.entriesOf(node, 'items', remedy, (item) => this.item(item, common.operator, seen));
        return { ...common, type, completes, items };
      }
      case 'leaderboard': {
        const remedy = 'List what gives points, such as { counts: bet, per: { EUR: "1.00" }, points: 1 }.';
        const points = this.entriesOf(node, 'points', remedy, (item) => this.points(item, common.operator));
        const ranks = node.get('keep_ranks');
        const keepRanks =
          this.values.whole(ranks, 1, FILE_LIMITS.ranks, 'the number of ranks, such as 100') ??
          FILE_LIMITS.keepRanks;
        this.warnOfRanks(node);
        return { ...common, type, points, keepRanks };
      }
    }
  }

  private typeSlotOf({ tree, path }: Slot): Slot | undefined {
    if (tree?.kind !== 'mapping') return undefined;
    const entry = tree.entries.find(({ key }) => key === 'type');
    return entry && { path: `${path}.type`, at: entry.value.at, tree: entry.value };
  }

  private refuseOthers(node: Mapping, type: PromotionType): void {
    const keys = keysOf(type);
    const isAccount = ['login_streak', 'deposit_target', 'withdrawal_target'].includes(type);
    for (const key of ALL_KEYS) {
      const slot = node.get(key);
      if (slot.tree === undefined || keys.includes(key)) continue;
      const ofStakes = isAccount && (key === 'games' || key === 'min_amount');
      const own = OWN_KEYS[type].join(', ');
      const remedy = ofStakes ? NOT_OF_ACCOUNTS : `Remove it; beside the common keys, ${type} has ${own}.`;
      this.faults.add(slot, `${type} has no key "${key}".`, remedy);
    }
  }

  private common(node: Mapping, type: PromotionType | undefined) {
    const operator = this.operator(node);
    const id = this.id(node, 'promotion', this.ids, operator ?? '');
    const brands = this.brands(node.get('brands'), operator);
    const timeZone = this.values.timeZone(node.get('time_zone'));
    const isUnzoned = node.get('time_zone').tree === undefined;
    const from = this.values.bound(node, 'from', timeZone);
    const to = this.values.bound(node, 'to', timeZone);
    this.refuseEmpty(node, from, to, timeZone);
    const window = this.window(node.get('window'), isUnzoned);
    if (type === 'login_streak' && isUnzoned)
      this.faults.add(node, 'The streak has no time_zone, so its days have no border.', ZONE_REMEDY);
    const acceptsLate = this.values.duration(node.get('accepts_late'));
    const confirmAfter = this.values.duration(node.get('confirm_after'));
    return {
      // The fault of a missing one hides no fault of another key.
      id: id ?? '',
      operator: operator ?? '',
      ...(brands !== undefined && { brands }),
      ...(timeZone !== undefined && { timeZone }),
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
      ...(window !== undefined && { window }),
      ...(acceptsLate !== undefined && { acceptsLate }),
      ...(confirmAfter !== undefined && { confirmAfter }),
    };
  }

  private operator(node: Mapping): string | undefined {
    const slot = this.values.required(node, 'operator', 'Name the operator, such as operator: acme.');
    const operator = this.values.text(slot, checkName);
    if (operator === undefined || this.operators === undefined) return operator;
    const entry = this.operators.get(operator);
    if (entry !== undefined) {
      if (!entry.active) this.warnings.add(slot, `The operator ${quoted(operator)} is inactive.`, ACTIVATE);
      return operator;
    }
    const known = [...this.operators.keys()];
    const remedy = suggestion(operator, known) ?? `Use one of: ${known.join(', ')}.`;
    this.faults.add(slot, `The reference data has no operator ${quoted(operator)}.`, remedy);
    return operator;
  }

  private brands(slot: Slot, operator: string | undefined): readonly string[] | undefined {
    if (slot.tree === undefined) return undefined;
    if (slot.tree.kind === 'list' && slot.tree.items.length === 0)
      this.faults.add(slot, 'The empty list counts no brand.', 'List the brands, or remove the key for all.');
    const entries = this.operators?.get(operator ?? '')?.brands;
    return this.values.list(slot, (item) => {
      const brand = this.values.text(item, checkBrand);
      if (brand === undefined || entries === undefined) return brand;
      const entry = entries.find(({ id }) => id === brand);
      if (entry?.active === false)
        this.warnings.add(item, `The brand ${quoted(brand)} is inactive.`, ACTIVATE);
      if (entry === undefined) {
        const known = entries.map(({ id }) => id);
        const remedy = suggestion(brand, known) ?? `Use one of: ${known.join(', ') || '(none)'}.`;
        this.faults.add(item, `The operator has no brand ${quoted(brand)}.`, remedy);
      }
      return brand;
    });
  }

  private window(slot: Slot, isUnzoned: boolean): Repetition | undefined {
    const node = this.values.mapping(slot, ['every', 'starts']);
    if (node === undefined) return undefined;
    const remedy = 'Write every: day, every: week or every: month.';
    const every = this.values.word(this.values.required(node, 'every', remedy), PERIODS);
    if (isUnzoned)
      this.faults.add(slot, 'The window has no time_zone, so its days have no border.', ZONE_REMEDY);
    const starts = node.get('starts');
    if (every === 'week') return { every, starts: this.values.word(starts, WEEKDAYS) ?? 'monday' };
    if (every === 'month') {
      const day = this.values.whole(
        starts,
        1,
        FILE_LIMITS.startOfMonth,
        'a day that every month has, such as 1',
      );
      return { every, starts: day ?? 1 };
    }
    if (every === 'day' && starts.tree !== undefined)
      this.faults.add(starts, 'A window of a day begins at 00:00.', 'Remove starts.');
    return every === 'day' ? { every } : undefined;
  }

  private refuseEmpty(
    node: Mapping,
    from: string | undefined,
    to: string | undefined,
    timeZone: string | undefined,
  ): void {
    if (from === undefined || to === undefined) return;
    const [first, end] = [readBound(from, timeZone), readBound(to, timeZone)];
    if (typeof first !== 'bigint' || typeof end !== 'bigint' || end > first) return;
    const message = `The promotion ends at ${to}, and begins at ${from}: it has no time.`;
    this.faults.add(node.get('to'), message, 'Write a later time: the end itself does not count.');
  }

  private target(node: Mapping) {
    const example = 'target: { EUR: "100.00" }';
    return this.values.amounts(
      this.values.required(node, 'target', `Write the amount of each currency: ${example}.`),
      example,
    );
  }

  private number(node: Mapping, key: string, least: number, most: number, meaning: string) {
    return this.values.whole(this.values.required(node, key, `Write ${meaning}.`), least, most, meaning);
  }

  private stakes(node: Mapping, operator: string): Stakes {
    const catalogue = this.operators?.get(operator)?.catalogue ?? [];
    const games = this.values.games(node.get('games'), (game, item) => {
      const entry = catalogue.find(({ id }) => id === game);
      if (catalogue.length === 0 || entry?.active === true) return;
      if (entry !== undefined) {
        const remedy = 'Activate it before the promotion begins: no bet or settled of it is accepted.';
        this.warnings.add(
          item,
          `The game ${quoted(game)} is inactive in the catalogue of ${operator}.`,
          remedy,
        );
        return;
      }
      const near = suggestion(
        game,
        catalogue.map(({ id }) => id),
      );
      const remedy = near ?? 'Check the id: no bet or settled of it is accepted.';
      this.warnings.add(item, `The catalogue of ${operator} has no game ${quoted(game)}.`, remedy);
    });
    const minAmount = this.values.amounts(node.get('min_amount'), 'min_amount: { EUR: "0.50" }');
    return { ...(games !== undefined && { games }), ...(minAmount !== undefined && { minAmount }) };
  }

  private item(slot: Slot, operator: string, seen: Map<string, FilePlace>) {
    const node = this.values.mapping(slot, ENTRY_KEYS.items);
    if (node === undefined) return undefined;
    const id = this.id(node, 'item', seen);
    const need = this.number(node, 'need', 1, FILE_LIMITS.events, 'the number of items, such as 3');
    const per = this.values.amounts(node.get('per'), 'per: { EUR: "1.00" }');
    const stakes = this.stakes(node, operator);
    if (id === undefined || need === undefined) return undefined;
    return { id, need, ...stakes, ...(per !== undefined && { per }) };
  }

  private points(slot: Slot, operator: string) {
    const node = this.values.mapping(slot, ENTRY_KEYS.points);
    if (node === undefined) return undefined;
    const countsSlot = this.values.required(node, 'counts', 'Write counts: bet or counts: settled.');
    const counts = this.values.word(countsSlot, STAKE_KINDS);
    const points = this.number(node, 'points', 1, FILE_LIMITS.points, 'the number of points, such as 1');
    const per = this.values.amounts(node.get('per'), 'per: { EUR: "1.00" }');
    const stakes = this.stakes(node, operator);
    if (counts === undefined || points === undefined) return undefined;
    return { counts, points, ...stakes, ...(per !== undefined && { per }) };
  }

  /** The entries of a list that must not be empty. */
  private entriesOf<T>(node: Mapping, key: string, remedy: string, read: (item: Slot) => T | undefined): T[] {
    const slot = this.values.required(node, key, remedy);
    if (slot.tree?.kind === 'list' && slot.tree.items.length === 0)
      this.faults.add(slot, `The list "${key}" is empty.`, remedy);
    return this.values.list(slot, read);
  }

  private warnOfStreak(
    node: Mapping,
    days: number,
    { window, from, to, timeZone }: Pick<PromotionDefinition, 'window' | 'from' | 'to' | 'timeZone'>,
  ): void {
    const ofWindow = window === undefined ? Number.POSITIVE_INFINITY : MOST_DAYS_OF[window.every];
    const most = Math.min(ofWindow, daysBetween(from, to, timeZone));
    if (days <= most) return;
    const message = `No window has ${days} days in a row: the most is ${most}.`;
    this.warnings.add(node.get('days'), message, 'Write fewer days, or a longer window.');
  }

  private warnOfRanks(node: Mapping): void {
    if (node.get('window').tree === undefined && node.get('to').tree === undefined) {
      const remedy = 'Add to, or a window.';
      this.warnings.add(node, 'The leaderboard never closes, so it has no winners.', remedy);
    }
    if (node.get('accepts_late').tree === undefined) {
      const message = 'Ranks count from the close on, and each late event may change them.';
      this.warnings.add(node, message, 'Add accepts_late, such as PT12H: the ranks wait for it.');
    }
  }

  /** @param seen the places of earlier ids by scope, all of which must differ; the method adds this one */
  private id(node: Mapping, what: string, seen: Map<string, FilePlace>, scope = ''): string | undefined {
    const slot = this.values.required(node, 'id', `Give the ${what} an id.`);
    const id = this.values.text(slot, checkName);
    if (id === undefined) return undefined;
    const key = `${scope}/${id}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, { at: slot.at, path: slot.path });
    else {
      const message = `The ${what} id ${quoted(id)} is already used on line ${this.faults.lineOf(first.at)}.`;
      this.faults.add(slot, message, 'Give one of the two another id, or remove it.');
    }
    return id;
  }
}

/** The number of local days in a range. Infinity where it has no bound, or a fault. */
function daysBetween(from: string | undefined, to: string | undefined, zone: string | undefined): number {
  if (from === undefined || to === undefined || zone === undefined) return Number.POSITIVE_INFINITY;
  const [first, end] = [readBound(from, zone), readBound(to, zone)];
  if (typeof first !== 'bigint' || typeof end !== 'bigint') return Number.POSITIVE_INFINITY;
  const dayOf = makeLocalDays(new TimeZone(zone));
  return (Date.parse(dayOf(end - 1n)) - Date.parse(dayOf(first))) / DAY_MS + 1;
}

const ZONE_REMEDY = 'Add the zone of the players, such as time_zone: Europe/Warsaw.';
const ACTIVATE =
  'Its events are rejected as operator_inactive: activate it in the reference data before the promotion begins.';
