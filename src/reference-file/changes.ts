/** Describes the changes that applying reference data would make, for the person who is about to apply it. */

import {
  type BrandEntry,
  type ConnectionEntry,
  feedIdOf,
  type GameEntry,
  type OperatorEntry,
  type ReferenceDocument,
} from '../domain/reference';
import { plain } from '../lib/printable';

export interface Change {
  readonly what: 'operator' | 'connection' | 'brand' | 'game';
  /**
   * An operator's id, or `operator/id` for its connections, brands and games. An operator's id has no slash.
   */
  readonly id: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** `field: old -> new` for a change, `field: new` for an addition, and nothing for a removal. */
  readonly details: readonly string[];
}

/** A value as it is printed. A list has its members, whose order has no meaning. */
type Shown = string | readonly string[];
type Fields = ReadonlyMap<string, Shown>;

interface Item {
  readonly what: Change['what'];
  readonly operatorId: string;
  readonly ownId: string;
  readonly fields: Fields;
}

/**
 * Returns every operator, connection, brand and game that differs between two documents, by operator and in a
 * fixed order. The order within a document's own lists is no difference, since no verdict depends on it.
 */
export function describeChanges(before: ReferenceDocument, after: ReferenceDocument): Change[] {
  const old = itemsOf(before);
  const now = itemsOf(after);
  const found: { readonly item: Item; readonly change: Change }[] = [];
  for (const [key, item] of now) {
    const previous = old.get(key);
    const details = previous === undefined ? listed(item.fields) : differences(previous.fields, item.fields);
    if (previous !== undefined && details.length === 0) continue;
    found.push({ item, change: change(item, previous === undefined ? 'added' : 'changed', details) });
  }
  for (const [key, item] of old) if (!now.has(key)) found.push({ item, change: change(item, 'removed', []) });
  return found.sort((a, b) => inOrder(a.item, b.item)).map((entry) => entry.change);
}

/**
 * The removals after which the events of a sender are no longer accepted. They have to be allowed explicitly
 * (docs/rules.md, C7).
 */
export function removals(changes: readonly Change[]): Change[] {
  return changes.filter(
    (it) => it.change === 'removed' && (it.what === 'operator' || it.what === 'connection'),
  );
}

/**
 * Prints one line for each change. Games of one operator with the same change share a line, since catalogues
 * are long.
 */
export function printChanges(changes: readonly Change[]): string[] {
  const groups = new Map<string, Change[]>();
  for (const it of changes) {
    const operatorId = it.id.slice(0, it.id.indexOf('/'));
    const key = JSON.stringify(it.what === 'game' ? [operatorId, it.change, it.details] : [it.what, it.id]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [it]);
    else group.push(it);
  }
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const details = first.details.length > 0 ? `: ${first.details.join('; ')}` : '';
    const what = group.length > 1 ? `${group.length} games` : first.what;
    return [`${first.change} ${what} ${enumerated(group.map((it) => it.id))}${details}`];
  });
}

const RANK: readonly Change['what'][] = ['operator', 'connection', 'brand', 'game'];

function inOrder(a: Item, b: Item): number {
  return (
    compare(a.operatorId, b.operatorId) ||
    RANK.indexOf(a.what) - RANK.indexOf(b.what) ||
    compare(a.ownId, b.ownId)
  );
}

/** Compares by code units, so the order is the same on every machine, in every language. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function change(item: Item, kind: Change['change'], details: readonly string[]): Change {
  const id = item.what === 'operator' ? item.ownId : `${item.operatorId}/${item.ownId}`;
  return { what: item.what, id, change: kind, details };
}

function itemsOf(document: ReferenceDocument): Map<string, Item> {
  const items = document.operators.flatMap((operator) => {
    const item = (
      what: Item['what'],
      ownId: string,
      fields: readonly (readonly [string, Shown])[],
    ): Item => ({
      what,
      operatorId: operator.id,
      ownId,
      fields: new Map(fields),
    });
    return [
      item('operator', operator.id, operatorFields(operator)),
      ...operator.connections.map((it) => item('connection', it.id, connectionFields(operator, it))),
      ...operator.brands.map((it) => item('brand', it.id, brandFields(it))),
      ...operator.catalogue.map((it) => item('game', it.id, gameFields(it))),
    ];
  });
  return new Map(items.map((item) => [JSON.stringify([item.what, item.operatorId, item.ownId]), item]));
}

/**
 * Keys without words of their own, each with its JSON. Documents without differences count as equal, so a
 * difference that is not reported would not be applied.
 */
function otherFields(others: object): (readonly [string, Shown])[] {
  return Object.entries(others).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, JSON.stringify(value)] as const],
  );
}

function operatorFields(operator: OperatorEntry): (readonly [string, Shown])[] {
  const { id: _, active, connections: _1, brands: _2, catalogue: _3, ...others } = operator;
  return [['active', String(active)], ...otherFields(others)];
}

function gameFields({ id: _, active, ...others }: GameEntry): (readonly [string, Shown])[] {
  return [['active', String(active)], ...otherFields(others)];
}

function connectionFields(
  operator: OperatorEntry,
  connection: ConnectionEntry,
): (readonly [string, Shown])[] {
  const { id: _, transport, topic, brand, feed, test, ...others } = connection;
  return [
    ['transport', transport],
    ...(topic === undefined ? [] : [['topic', topic] as const]),
    ['carries', brand === undefined ? 'several brands' : `only brand ${plain(brand)}`],
    ['feed', feedIdOf(operator.id, feed, test)],
    ...(test === undefined ? [] : [['test', 'true'] as const]),
    ...otherFields(others),
  ];
}

function brandFields(brand: BrandEntry): (readonly [string, Shown])[] {
  const { id: _, active, games, minBet, ...others } = brand;
  const { deny, allow, ...otherGames } = games;
  return [
    ['active', String(active)],
    ...(deny.length === 0 ? [] : [['games.deny', deny] as const]),
    ...(allow === undefined ? [] : [['games.allow', allow] as const]),
    ...otherFields(otherGames).map(([name, shown]) => [`games.${name}`, shown] as const),
    ...Object.entries(minBet)
      .sort(([a], [b]) => compare(a, b))
      .map(([code, amount]) => [`min_bet.${code}`, amount] as const),
    ...otherFields(others),
  ];
}

function listed(fields: Fields): string[] {
  return [...fields].map(([name, shown]) => `${name}: ${print(shown)}`);
}

function differences(old: Fields, now: Fields): string[] {
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((name) => {
    const before = old.get(name);
    const after = now.get(name);
    const same =
      typeof before === 'string' || typeof after === 'string' ? before === after : isSameSet(before, after);
    if (same) return [];
    const members =
      typeof before !== 'string' && typeof after !== 'string' ? memberChanges(before, after) : '';
    return [`${name}: ${print(before)} -> ${print(after)}${members}`];
  });
}

function isSameSet(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const left = new Set(a);
  const right = new Set(b);
  return left.size === right.size && a.every((member) => right.has(member));
}

const SHOWN_MEMBERS = 5;

/**
 * Names the members that differ between two long lists. Only the first members of a long list are printed,
 * and those may be equal.
 */
function memberChanges(before: readonly string[] = [], after: readonly string[] = []): string {
  if (before.length <= SHOWN_MEMBERS && after.length <= SHOWN_MEMBERS) return '';
  const old = new Set(before);
  const now = new Set(after);
  const added = [...now].filter((member) => !old.has(member));
  const removed = [...old].filter((member) => !now.has(member));
  const parts = [
    added.length > 0 && `added ${enumerated(added)}`,
    removed.length > 0 && `removed ${enumerated(removed)}`,
  ];
  return ` (${parts.filter((part) => part !== false).join(', ')})`;
}

function print(shown: Shown | undefined): string {
  if (shown === undefined) return 'not given';
  return typeof shown === 'string' ? shown : `[${enumerated(shown)}]`;
}

function enumerated(texts: readonly string[]): string {
  const shown = texts.slice(0, SHOWN_MEMBERS).map(plain).join(', ');
  return texts.length > SHOWN_MEMBERS ? `${shown} and ${texts.length - SHOWN_MEMBERS} more` : shown;
}
