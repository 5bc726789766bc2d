/** Versions of a promotion over time: recomputed, pending, removed, and at a time. */
import { BEFORE_ALL } from '../../../src/promotions/calendar';
import { planChanges, printPromotionChanges } from '../../../src/promotions/changes';
import { promotionStateOf } from '../../../src/promotions/state';
import { compilePromotion } from '../../../src/promotions/terms';
import {
  define,
  type Moment,
  remove,
  type Takeover,
  type Timeline,
  windowIn,
} from '../../../src/promotions/timeline';
import { definitionsOf, foldSlices, LedgerRows, micros, valuesOf } from '../../support/promotions';

const AT = micros('2026-12-03T12:00:00Z');
const WEEKLY = 'window: { every: week, starts: monday }, time_zone: Europe/Warsaw';
const MONTHLY = 'window: { every: month, starts: 1 }, time_zone: Europe/Warsaw';

function definitionOf(more: string) {
  const [definition] = definitionsOf(`id: x, type: bet_count, ${more}`);
  if (definition === undefined) throw new Error('no definition');
  return definition;
}

/** Defines one after the other. */
function timelineOf(
  definitions: readonly (readonly [more: string, takeover?: Takeover, moment?: Partial<Moment>])[],
): Timeline {
  let timeline: Timeline | undefined;
  for (const [more, takeover, moment] of definitions) {
    const change = define(timeline, definitionOf(more), { at: AT, completeSince: null, ...moment }, takeover);
    if (change?.objection !== undefined) throw new Error(change.objection.message);
    timeline = change?.timeline ?? timeline;
  }
  if (timeline === undefined) throw new Error('nothing is defined');
  return timeline;
}

const versionAt = (timeline: Timeline, at: string) => windowIn(timeline, micros(at))?.version.version;

test('a changed promotion that is changed again before its next window counts by the last definition [P17]', () => {
  const timeline = timelineOf([[`target: 1, ${WEEKLY}`], [`target: 2, ${WEEKLY}`], [`target: 3, ${WEEKLY}`]]);
  expect(versionAt(timeline, '2026-12-06T22:59:59Z')).toBe(1);
  expect(versionAt(timeline, '2026-12-06T23:00:00Z')).toBe(3);
});

test('a definition that returns before its next window changes nothing that is seen [P17]', () => {
  const timeline = timelineOf([[`target: 1, ${WEEKLY}`], [`target: 2, ${WEEKLY}`], [`target: 1, ${WEEKLY}`]]);
  expect([versionAt(timeline, '2026-12-06T22:59:59Z'), versionAt(timeline, '2026-12-06T23:00:00Z')]).toEqual([
    1, 3,
  ]);
});

test('a pending change is recomputed by the same file [P22]', () => {
  const before = timelineOf([[`target: 1, ${WEEKLY}`], [`target: 2, ${WEEKLY}`]]);
  const moment = { at: AT, completeSince: null };
  expect(define(before, definitionOf(`target: 2, ${WEEKLY}`), moment)).toBeUndefined();
  const change = define(before, definitionOf(`target: 2, ${WEEKLY}`), moment, 'recompute');
  expect([change?.differences, change?.effect]).toEqual([
    ['target: 1 -> 2'],
    { from: 'recompute', at: null },
  ]);
  expect(change?.timeline.map(({ until }) => until)).toEqual([BEFORE_ALL, BEFORE_ALL, null]);
});

test('a change that counts already is not computed again by the same file [P22]', () => {
  const before = timelineOf([[`target: 1, ${WEEKLY}`], [`target: 2, ${WEEKLY}`]]);
  const moment = { at: micros('2026-12-07T12:00:00Z'), completeSince: null };
  expect(define(before, definitionOf(`target: 2, ${WEEKLY}`), moment, 'recompute')).toBeUndefined();
});

test('recomputed windows of another length take over the window that they begin in [P22]', () => {
  const timeline = timelineOf([
    [`target: 1, ${MONTHLY}`],
    [`target: 1, ${WEEKLY}, from: 2026-11-18T00:00`, 'recompute'],
  ]);
  expect(versionAt(timeline, '2026-10-31T12:00:00Z')).toBe(1);
  expect(versionAt(timeline, '2026-11-10T12:00:00Z')).toBeUndefined();
  expect(versionAt(timeline, '2026-11-18T12:00:00Z')).toBe(2);
});

test('windows of which history lost events stay as they are [P22]', () => {
  const completeSince = micros('2026-11-01T00:00:00Z');
  const timeline = timelineOf([
    [`target: 1, ${WEEKLY}`],
    [`target: 2, ${WEEKLY}`, 'recompute', { completeSince }],
  ]);
  // The first of November was a Sunday: its week began in October.
  expect(versionAt(timeline, '2026-11-01T12:00:00Z')).toBe(1);
  expect(versionAt(timeline, '2026-11-01T22:59:59Z')).toBe(1);
  expect(versionAt(timeline, '2026-11-01T23:00:00Z')).toBe(2);
});

test('a window without an end cannot be recomputed where history lost its events [P22]', () => {
  const before = timelineOf([['target: 1']]);
  const moment = { at: AT, completeSince: micros('2026-11-01T00:00:00Z') };
  const repeated = define(before, definitionOf(`target: 2, ${WEEKLY}`), moment, 'recompute');
  expect(repeated?.objection?.message).toBe(
    'The window "once" has events from before 2026-11-01T00:00:00Z, which history no longer has.',
  );
  const once = define(before, definitionOf('target: 2'), moment, 'recompute');
  expect(once?.objection?.message).toContain('history has no events from before 2026-11-01T00:00:00Z');
});

test('a removed promotion that is recomputed counts by its new definition alone [P22]', () => {
  const removed = remove(timelineOf([['target: 1']]), AT);
  if (removed === undefined) throw new Error('it was removed before');
  const change = define(
    removed.timeline,
    definitionOf('target: 2'),
    { at: AT + 1n, completeSince: null },
    'recompute',
  );
  expect(change).toMatchObject({ change: 'added', differences: [], effect: { from: 'recompute', at: null } });
  expect(change?.timeline.map(({ until, removedAt }) => [until, removedAt])).toEqual([
    [BEFORE_ALL, AT],
    [null, null],
  ]);
});

test('a fold over a recomputed timeline counts by the new version alone [P22]', () => {
  const timeline = timelineOf([['target: 1'], ['target: 2, games: [g2]', 'recompute']]);
  const ledger = new LedgerRows();
  const rows = [ledger.entry(), ledger.entry({ game: 'g2' }), ledger.entry({ game: 'g2' })];
  const versions = timeline.map((each) => ({ ...each, promotion: compilePromotion(each.definition) }));
  const { fold, entries } = foldSlices(versions, [rows]);
  expect([...fold.progress()].map((progress) => [progress.version, valuesOf(progress)])).toEqual([[2, '2']]);
  expect(entries).toHaveLength(1);
});

test('the printed difference names the windows that are computed again [P22]', () => {
  const stored = new Map([['acme/x', timelineOf([[`target: 1, ${WEEKLY}`]])]]);
  const windows = 'computes windows that begin at 2026-11-29T23:00:00Z or later again';
  const others = 'also those that have begun or are over; earlier versions no longer count there';
  const document = { promotions: [definitionOf(`target: 2, ${WEEKLY}, from: 2026-11-30T00:00`)] };
  expect(
    printPromotionChanges(planChanges(stored, document, { at: AT, completeSince: null }, 'recompute')),
  ).toEqual([
    `changed promotion acme/x: target: 1 -> 2; from: not given -> 2026-11-30T00:00 (${windows}, ${others})`,
  ]);
});

test.each([
  ['counts', [[`target: 1, ${WEEKLY}`], [`target: 2, ${WEEKLY}`]], 1, 2],
  ['counts', [['target: 1']], 1, undefined],
  ['begins later', [['target: 1, from: 2026-12-04T00:00Z']], 1, undefined],
  ['is over', [['target: 1, to: 2026-12-03T12:00Z']], 1, undefined],
  ['is over', [['target: 1, from: 2026-12-01T00:00Z, to: 2026-12-03T12:00Z']], 1, undefined],
  ['counts', [['target: 1'], ['target: 2', 'recompute']], 2, undefined],
] as const)('a promotion %s at a time: %j [P17]', (state, definitions, version, next) => {
  const found = promotionStateOf(timelineOf(definitions), AT);
  expect([found.state, found.version.version, found.next?.version]).toEqual([state, version, next]);
});

test('a changed promotion begins later while no window counts [P17]', () => {
  const timeline = timelineOf([[`target: 1, ${WEEKLY}`], [`target: 1, ${MONTHLY}`]]);
  const stateAt = (at: string) => {
    const { state, version } = promotionStateOf(timeline, micros(at));
    return [state, version.version];
  };
  expect(stateAt('2026-12-06T22:59:59Z')).toEqual(['counts', 1]);
  expect(stateAt('2026-12-06T23:00:00Z')).toEqual(['begins later', 2]);
  expect(stateAt('2026-12-31T22:59:59Z')).toEqual(['begins later', 2]);
  expect(stateAt('2026-12-31T23:00:00Z')).toEqual(['counts', 2]);
});

test('a change while no window counts keeps the windows of before [P17]', () => {
  const timeline = timelineOf([
    [`target: 1, ${WEEKLY}`],
    [`target: 1, ${MONTHLY}`],
    [`target: 2, ${MONTHLY}`, 'next_window', { at: micros('2026-12-20T00:00:00Z') }],
  ]);
  expect(versionAt(timeline, '2026-12-06T22:59:59Z')).toBe(1);
  expect(versionAt(timeline, '2026-12-20T00:00:00Z')).toBeUndefined();
  expect(versionAt(timeline, '2026-12-31T23:00:00Z')).toBe(3);
});

test('a change that no window would count names --recompute, where that would count it [P17] [P22]', () => {
  const running = 'from: 2026-12-01T00:00Z, to: 2026-12-10T00:00Z';
  const before = timelineOf([[`target: 1, ${running}`]]);
  const moment = { at: AT, completeSince: null };
  const after = definitionOf(`target: 2, ${running}`);
  expect(define(before, after, moment)?.objection).toEqual({
    message:
      'The definition would never count: it has no window that begins at 2026-12-10T00:00:00Z or later.',
    remedy:
      'Give the changed promotion another id, or write a later from and to. Or compute it again: apply it with --recompute.',
  });
  expect(define(before, after, moment, 'recompute')?.objection).toBeUndefined();
  const isOver = definitionOf(`target: 1, ${WEEKLY}, to: 2026-11-20T00:00`);
  const lost = { at: AT, completeSince: micros('2026-12-01T00:00:00Z') };
  expect(define(undefined, isOver, lost)?.objection?.remedy).toBe(
    'Give the changed promotion another id, or write a later from and to.',
  );
});

test('a promotion was removed from its removal on [P17]', () => {
  const removed = remove(timelineOf([['target: 1']]), AT)?.timeline;
  if (removed === undefined) throw new Error('it was removed before');
  expect(promotionStateOf(removed, AT).state).toBe('was removed');
  expect(promotionStateOf(removed, AT - 1n).state).toBe('counts');
});
