/** Pages of one event or round whose queries are ended at their deadline. */
import { connectionsPage } from '../../../src/console/pages/connections';
import { eventPage } from '../../../src/console/pages/event';
import { roundPage } from '../../../src/console/pages/round';
import { readParameters } from '../../../src/console/parameters';
import { QUERIES } from '../../../src/console/queries';
import type { PageReader } from '../../../src/console/reader';
import { OperatorScope, type Query } from '../../../src/console/scope';

type Rows = readonly Readonly<Record<string, string>>[];
const NOW = Date.UTC(2026, 10, 30);

/** Answers a query by its rows. A query without rows here is too slow. */
function readerOf(answers: ReadonlyMap<Query, Rows>): PageReader {
  return {
    scope: new OperatorScope('acme'),
    shown: [],
    async read(query) {
      const given = [...answers].find(([{ title }]) => title === query.title)?.[1];
      const rows = (given ?? []).map((row) =>
        Object.fromEntries(query.columns.map((name) => [name, row[name] ?? null])),
      );
      return { rows: rows as never, hasMore: false, isTooSlow: given === undefined };
    },
  };
}

const parameters = (search: string) =>
  readParameters(new URLSearchParams(search), ['feed', 'id', 'range', 'until'], NOW);
const eventOf = async (...answers: [Query, Rows][]) =>
  String(await eventPage(readerOf(new Map(answers)), parameters('id=e-1')));
const roundOf = async (...answers: [Query, Rows][]) =>
  String(await roundPage(readerOf(new Map(answers)), parameters('id=r-1')));

const INCOMPLETE = 'This page is incomplete: load it again in a minute.';
const KEY: [Query, Rows] = [QUERIES.eventKey, [{ verdict: 'accepted', verdict_id: '7' }]];
const REFUND: [Query, Rows] = [QUERIES.event, [{ verdict: 'accepted', kind: 'refund', event_id: 'e-1' }]];
const ONCE: [Query, Rows] = [QUERIES.deliveriesOfEvent, []];

test('an event that no query found in time is not said to be undecided', async () => {
  for (const answers of [[], [KEY[0]], [QUERIES.event]] as const) {
    const page = await eventOf(...answers.map((query): [Query, Rows] => [query, []]), ONCE);
    expect(page).toContain(INCOMPLETE);
    expect(page).not.toContain('was decided');
  }
  const page = await eventOf([QUERIES.event, []], [QUERIES.eventKey, []], ONCE);
  expect(page).toContain('No event of yours with this event_id was decided');
});

test('an event whose verdict was not read in time is not said to be dropped', async () => {
  const page = await eventOf(KEY, ONCE);
  expect(page).toContain(INCOMPLETE);
  expect(page).not.toContain('was dropped');
  expect(await eventOf(KEY, [QUERIES.event, []], ONCE)).toContain('was dropped');
});

test('deliveries and reversals that were not read in time are not said to be none', async () => {
  const page = await eventOf(KEY, REFUND);
  expect(page).toContain(INCOMPLETE);
  expect(page).not.toMatch(/the event came once|reversed no entry/);
  const whole = await eventOf(KEY, REFUND, ONCE, [QUERIES.reversals, []]);
  expect(whole).not.toContain(INCOMPLETE);
  expect(whole).toMatch(/reversed no entry.*the event came once/s);
});

test('a round that was not read in time is neither unknown nor dropped', async () => {
  const sums: [Query, Rows] = [QUERIES.round, [{ currency: 'EUR', refunded: 'f' }]];
  const nothing = await roundOf([QUERIES.roundAnomalies, []]);
  expect(nothing).toContain(INCOMPLETE);
  expect(nothing).not.toContain('names this round');
  const withoutEvents = await roundOf(sums, [QUERIES.roundAnomalies, []]);
  expect(withoutEvents).toContain(INCOMPLETE);
  expect(withoutEvents).not.toContain('were dropped');
  const withoutSums = await roundOf(
    [QUERIES.roundEvents, [{ event_id: 'e-1' }]],
    [QUERIES.roundAnomalies, []],
  );
  expect(withoutSums).toContain(INCOMPLETE);
  expect(withoutSums).not.toContain('Counted amounts');
});

test('connections that were not read in time are not said to be no longer registered', async () => {
  const counts: [Query, Rows] = [QUERIES.connections, [{ connection_id: 'acme-stream', accepted: '1' }]];
  const page = String(
    await connectionsPage(readerOf(new Map([counts, [QUERIES.duplicates, []]])), parameters('')),
  );
  expect(page).toContain('did not answer within 5 s');
  expect(page).not.toContain('no longer registered');
});
