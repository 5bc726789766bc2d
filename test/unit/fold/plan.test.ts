/** The next step of a fold, from the rows of its generations. */
import {
  ARRIVAL_REASON,
  CursorBeyondStore,
  FIRST_REASON,
  type FoldState,
  type Generation,
  planStep,
} from '../../../src/fold/plan';

const HERE = 'system/1/0';
/** A replica of the store was promoted. */
const PROMOTED = 'system/2/0';
/** Rows of another store came. */
const ARRIVED = 'system/1/1';

const shown = (after: number, more: Partial<Generation> = {}): Generation => ({
  generation: 1,
  state: 'shown',
  after,
  lineage: HERE,
  since: '-infinity',
  ...more,
});
const filling = (after: number, more: Partial<Generation> = {}): Generation => ({
  generation: 2,
  state: 'filling',
  after,
  lineage: HERE,
  since: '-infinity',
  ...more,
});
const planOf = (generations: readonly Generation[], more: Partial<FoldState> = {}) =>
  planStep({
    generations,
    lineage: HERE,
    horizon: 100,
    turn: 'shown',
    reach: ({ after }) => after + 30,
    ...more,
  });

test('without a generation the first one begins, and after retired ones it has a new number', () => {
  expect(planOf([])).toEqual({ kind: 'begin', generation: 1, reason: FIRST_REASON });
  expect(planOf([{ ...shown(5), generation: 7, state: 'retired' }])).toMatchObject({ generation: 8 });
});

describe('a slice of the shown generation', () => {
  test('goes as far as its span reaches, and no further than the horizon', () => {
    expect(planOf([shown(10)])).toEqual({
      kind: 'slice',
      of: shown(10),
      upTo: 40,
      shows: false,
      isOnAnotherServer: false,
    });
    expect(planOf([shown(90)])).toMatchObject({ upTo: 100 });
  });

  test('is none where the cursor is at the horizon', () => {
    expect(planOf([shown(100)])).toEqual({ kind: 'idle' });
  });

  test('goes on after a replica was promoted, since results moved with history', () => {
    expect(planOf([shown(10)], { lineage: PROMOTED })).toMatchObject({
      kind: 'slice',
      isOnAnotherServer: true,
    });
  });
});

describe('where rows of another store arrived', () => {
  test('another generation begins beside the shown one', () => {
    expect(planOf([shown(10)], { lineage: ARRIVED })).toEqual({
      kind: 'begin',
      generation: 2,
      reason: ARRIVAL_REASON,
    });
  });

  test('a filling one that began before them is given up', () => {
    expect(planOf([shown(10), filling(5)], { lineage: ARRIVED })).toEqual({ kind: 'give up', generation: 2 });
  });

  test('the shown one stays as it is while another one with them is filled', () => {
    const of = filling(5, { lineage: ARRIVED });
    for (const turn of ['shown', 'filling'] as const)
      expect(planOf([shown(10), of], { lineage: ARRIVED, turn })).toMatchObject({ kind: 'slice', of });
  });
});

describe('a generation that is filled', () => {
  test.each(['shown', 'filling'] as const)('takes turns with the shown one: the turn of %s', (turn) => {
    expect(planOf([shown(50), filling(5)], { turn })).toMatchObject({ of: { state: turn } });
  });

  test('has its slice where the shown one has nothing to do, and the other way round', () => {
    expect(planOf([shown(100), filling(5)])).toMatchObject({ of: { state: 'filling' } });
  });

  test('goes up to the cursor of the shown one, and is shown once it is there', () => {
    expect(planOf([shown(50), filling(5)], { turn: 'filling' })).toMatchObject({ upTo: 35, shows: false });
    expect(planOf([shown(50), filling(20)], { turn: 'filling' })).toMatchObject({ upTo: 50, shows: true });
    expect(planOf([shown(50), filling(40)], { turn: 'filling' })).toMatchObject({ upTo: 50, shows: true });
  });

  test('is shown by an empty slice where it has everything already', () => {
    expect(planOf([shown(50), filling(50)], { turn: 'filling' })).toMatchObject({ upTo: 50, shows: true });
  });
});

test('a retired generation is swept while nothing else is to do', () => {
  const retired = shown(5, { generation: 0, state: 'retired' });
  expect(planOf([retired, shown(100)])).toEqual({ kind: 'sweep', generation: 0 });
  expect(planOf([retired, shown(10)])).toMatchObject({ kind: 'slice' });
});

test.each([
  ['the shown generation', [shown(101)]],
  ['the filling one', [shown(10), filling(101)]],
])('a cursor of %s beyond the numbers of the store is an error', (_, generations) => {
  expect(() => planOf(generations)).toThrow(CursorBeyondStore);
  expect(() => planOf(generations)).toThrow('verdicts up to 101 are folded');
});
