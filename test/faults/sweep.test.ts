/**
 * Every point of a decision. At each message between a worker and Postgres or Kafka the connection is cut, or
 * the worker is killed. All sent records are still decided once. The test prints the result of each point.
 */

import { sideBySide } from '../stream/side-by-side';
import { CONNECTING, decisionOf, isOfKafka, OTHER_TRANSACTION, type Point } from '../support/taps';
import { PROGRESS_MS } from './promises';
import { type BatchKind, inSweep, type Strike, type Sweep } from './sweep';
import { type Swept, tableOf } from './sweep-table';

/**
 * Four workers with 40 connections each leave enough of the 400 connections of Postgres to the other tests.
 */
const together = sideBySide(4);
const swept: Swept[] = [];
afterAll(() => {
  process.stdout.write(tableOf(swept));
});

/**
 * More partitions than a transaction has messages. Each message gets a partition of its own, and partition 0
 * shows which messages there are.
 */
const PARTITIONS = 40;
/** Partitions that share a batch. */
const GROUP = 3;
/**
 * Batches that are held at once. A worker that notices that its partitions share rounds has no more in
 * flight. A held COPY also delays each "drop database" of the server, and so other tests.
 */
const HELD_AT_ONCE = 2;
/** Workers that share the points of a transaction. */
const STRUCK_WORKERS = 3;
const STRIKES: readonly Strike[] = ['cut', 'kill -9'];
const KINDS: readonly BatchKind[] = ['plain', 'with a dead letter'];

for (const strike of STRIKES) {
  for (const kind of KINDS) {
    together(
      `${strike} at each message of the transaction that decides a batch ${kind}, and of the one that finds the batch decided [U1 K3 S5 S7]`,
      () =>
        inSweep({ kind, partitions: PARTITIONS }, async (sweep) => {
          const { first, lost, again } = await recordDecision(sweep);
          await strikeDecisions(sweep, { conversation: `decision, ${kind}`, strike, points: first });
          const conversation = `decision read again, ${kind}`;
          await strikeDecisions(sweep, { conversation, strike, points: again, lost });
          await sweep.checkAll();
        }),
    );
  }

  const kind = strike === 'cut' ? 'with a dead letter' : 'plain';
  together(
    `${strike} at each message of the transaction that decides a batch of three partitions [U1 U3 K3 D2 S5]`,
    async () => {
      let points: readonly Point[] = [];
      await inSweep({ kind, groupSize: GROUP, partitions: GROUP }, async (sweep) => {
        points = await recordTogether(sweep);
      });
      const each = Math.ceil(points.length / STRUCK_WORKERS);
      const shares = Array.from({ length: STRUCK_WORKERS }, (_, no) =>
        points.slice(no * each, (no + 1) * each),
      );
      await Promise.all(
        shares.map((share) =>
          inSweep({ kind, groupSize: GROUP, partitions: GROUP * share.length }, async (sweep) => {
            await seedAll(sweep);
            for (let from = 0; from < share.length; from += HELD_AT_ONCE)
              await strikeTogether(sweep, strike, { points: share.slice(from, from + HELD_AT_ONCE), from });
            await sweep.checkAll();
          }),
        ),
      );
    },
  );

  together(
    `${strike} at each message of a new connection to Postgres, and of the start of a partition [U1]`,
    () =>
      inSweep({ kind: 'plain', partitions: PARTITIONS }, async (sweep) => {
        sweep.disconnect();
        sweep.plan.taken();
        await sweep.seed([0]);
        await sweep.untilDecided();
        const seen = sweep.plan.taken();
        let next = 1;
        for (const conversation of [OTHER_TRANSACTION, CONNECTING]) {
          const points = seen.get(conversation) ?? [];
          expect(points.length).toBeGreaterThan(5);
          const partitions = points.map(() => next++);
          // A new connection for each point: idle ones would be used first.
          sweep.disconnect();
          sweep.plan.set(conversation, points);
          await sweep.seed(partitions);
          await sweep.untilHeld(points.length);
          await sweep.strike(strike);
          const resumedMs = Math.max(...(await sweep.untilDecided()).values());
          await sweep.check();
          swept.push(...points.map((point) => ({ conversation, point, strike, resumedMs, readAgain: 0 })));
        }
        await sweep.checkAll();
      }),
  );
}

const PRODUCE_VERDICTS = 'Produce verdicts';
/** Periodic requests, independent of decisions. */
const HOUSEKEEPING = new Set(['Heartbeat', 'Metadata']);
/** Requests of a new connection, which may come during any decision: see the start. */
const OF_THE_START = new Set(['ApiVersions', 'FindCoordinator']);

together('cut at each request to Kafka, and at its answer [U1 S5 S7]', () =>
  inSweep({ kind: 'with a dead letter', partitions: 1 }, async (sweep) => {
    for (const [conversation, point] of await recordRequests(sweep))
      await strikeRequest(sweep, conversation, point, 'cut');
    await sweep.checkAll();
  }),
);

together('kill -9 at each request to Kafka that a batch makes, and at its answer [U1 S5 S7]', async () => {
  const lanes: [string, Point][][] = [[], [], [], []];
  await inSweep({ kind: 'with a dead letter', partitions: 1 }, async (sweep) => {
    const points = (await recordRequests(sweep)).filter(([of]) => !HOUSEKEEPING.has(of));
    for (const [index, point] of points.entries()) lanes[index % lanes.length]?.push(point);
  });
  await Promise.all(
    lanes.map((points) =>
      inSweep({ kind: 'with a dead letter', partitions: 1 }, async (sweep) => {
        for (const [conversation, point] of points)
          await strikeRequest(sweep, conversation, point, 'kill -9');
        await sweep.checkAll();
      }),
    ),
  );
});

/** A crash before the request repeats nothing, and one after it repeats the messages of both operators. */
together('cut and kill -9 between the decision and the topics of two operators [U1 S7 S9]', () =>
  inSweep({ kind: 'plain', partitions: 1, isTopicPerOperator: true }, async (sweep) => {
    const all = await recordRequests(sweep);
    const points = all.filter(([of]) => of === PRODUCE_VERDICTS);
    // One request carries the messages of both topics.
    expect(points.map(([, { direction }]) => direction)).toEqual(['request', 'answer']);
    for (const strike of STRIKES)
      for (const [conversation, point] of points) await strikeRequest(sweep, conversation, point, strike);
    expect(await sweep.checkAll()).toBeGreaterThan(0);
  }),
);

/** Takes minutes: `FAULTS=all`. */
const long = process.env.FAULTS === 'all' ? together : test.skip;

long('cut at each request to Kafka from the start of a worker to its first commit [U1]', () =>
  inSweep({ kind: 'plain', partitions: 1 }, async (sweep) => {
    const start = async () => {
      await sweep.restart();
      await sweep.seed([0]);
    };
    // From a committed offset on, as every start but the first.
    await sweep.seed([0]);
    await sweep.untilDecided();
    sweep.plan.taken();
    await start();
    await sweep.untilDecided();
    // The previous worker has left the group by then.
    for (const [of, point] of requestsOf(sweep).filter(([of]) => of !== 'LeaveGroup')) {
      sweep.plan.set(of, [point]);
      await start();
      await sweep.untilHeld(1);
      await sweep.strike('cut');
      const resumedMs = (await sweep.untilDecided()).get(0) ?? Number.NaN;
      await sweep.check();
      swept.push({ conversation: `${of} of the start`, point, strike: 'cut', resumedMs, readAgain: 0 });
    }
    await sweep.checkAll();
  }),
);

/**
 * The points of a decision: of new records, including the answer to their COMMIT, and of records that are
 * already decided.
 */
async function recordDecision(sweep: Sweep): Promise<{ first: Point[]; lost: Point; again: Point[] }> {
  await sweep.seed(Array.from({ length: sweep.partitions }, (_, partition) => partition));
  await sweep.untilDecided();
  const of = decisionOf(await sweep.numberOf(0));
  const record = async () => {
    sweep.plan.taken();
    await sweep.send([0]);
  };
  await record();
  await sweep.untilDecided();
  const first = sweep.plan.taken().get(of) ?? [];
  const lost = first.find(({ direction, what }) => direction === 'answer' && what === 'COMMIT');
  if (lost === undefined) throw new Error(`no COMMIT among ${JSON.stringify(first)}`);

  sweep.plan.set(of, [lost]);
  await record();
  await sweep.untilHeld(1);
  sweep.plan.taken();
  await sweep.strike('cut');
  await sweep.untilDecided();
  const again = sweep.plan.taken().get(of) ?? [];
  // A partition for each point, in addition to the first partition.
  expect(Math.max(first.length, again.length)).toBeLessThan(sweep.partitions);
  return { first, lost, again };
}

/**
 * @param lost where the previous transaction is held. It is the one that decided, so that the records are
 * read again
 */
async function strikeDecisions(
  sweep: Sweep,
  {
    conversation,
    strike,
    points,
    lost,
  }: { conversation: string; strike: Strike; points: readonly Point[]; lost?: Point },
): Promise<void> {
  expect(points.length).toBeGreaterThan(15);
  const partitions = points.map((_, index) => index + 1);
  await sweep.seed(partitions);
  await sweep.untilDecided();
  const before = await sweep.check();
  for (const [index, point] of points.entries()) {
    const of = decisionOf(await sweep.numberOf(index + 1));
    sweep.plan.set(of, lost === undefined ? [point] : [lost, point]);
  }
  await sweep.send(partitions);
  for (let strikes = lost === undefined ? 1 : 2; strikes > 0; strikes--) {
    await sweep.untilHeld(points.length);
    await sweep.strike(strike);
  }
  const resumed = await sweep.untilDecided();
  const after = await sweep.check();
  if (strike === 'cut') expect(sweep.hasLogged('partition is undecided')).toBe(true);
  for (const [index, point] of points.entries()) {
    const partition = index + 1;
    const resumedMs = resumed.get(partition) ?? Number.NaN;
    const readAgain = (after.get(partition) ?? 0) - (before.get(partition) ?? 0);
    swept.push({ conversation, point, strike, resumedMs, readAgain });
  }
}

/** The points of a transaction that decides the records of three partitions. */
async function recordTogether(sweep: Sweep): Promise<Point[]> {
  const group = await seedAll(sweep);
  const of = await decisionOfAll(sweep, group);
  for (let tries = 0; tries < MOST_SENDS; tries++) {
    sweep.plan.taken();
    await sweep.send(group);
    await sweep.untilDecided();
    const points = sweep.plan.taken().get(of);
    if (points === undefined) continue;
    expect(points.length).toBeGreaterThan(15);
    return points;
  }
  throw new Error('the records of a group never shared a batch');
}

/** A fetch may arrive between the records of two partitions. They are then sent again. */
const MOST_SENDS = 10;

async function seedAll(sweep: Sweep): Promise<number[]> {
  const partitions = Array.from({ length: sweep.partitions }, (_, partition) => partition);
  await sweep.seed(partitions);
  await sweep.untilDecided();
  return partitions;
}

async function decisionOfAll(sweep: Sweep, partitions: readonly number[]): Promise<string> {
  return decisionOf(...(await Promise.all(partitions.map((partition) => sweep.numberOf(partition)))));
}

/**
 * Strikes the batches of several groups at once, each at a point of its own.
 *
 * @param from the number of the first group
 */
async function strikeTogether(
  sweep: Sweep,
  strike: Strike,
  { points, from }: { points: readonly Point[]; from: number },
): Promise<void> {
  const before = await sweep.check();
  const groups = points.map((_, index) => sweep.groupOf(GROUP * (from + index)));
  for (const [index, point] of points.entries()) {
    const group = groups[index] ?? [];
    sweep.plan.set(await decisionOfAll(sweep, group), [point]);
    let isHeld = false;
    for (let tries = 0; !isHeld && tries < MOST_SENDS; tries++) {
      await sweep.send(group);
      isHeld = await sweep.untilHeldOrDecided(index + 1, group);
    }
    expect({ point, isHeld }).toEqual({ point, isHeld: true });
  }
  await sweep.strike(strike);
  const resumed = await sweep.untilDecided();
  const after = await sweep.check();
  if (strike === 'cut') expect(sweep.hasLogged('partition is undecided')).toBe(true);
  for (const [index, point] of points.entries()) {
    const group = groups[index] ?? [];
    const readAgain = group.map((partition) => (after.get(partition) ?? 0) - (before.get(partition) ?? 0));
    swept.push({
      conversation: 'decision of three partitions',
      point,
      strike,
      resumedMs: Math.max(...group.map((partition) => resumed.get(partition) ?? Number.NaN)),
      readAgain: readAgain.reduce((sum, records) => sum + records, 0),
    });
  }
}

/** The worker's requests to Kafka while it decides a batch, and its periodic requests. */
async function recordRequests(sweep: Sweep): Promise<[string, Point][]> {
  await sweep.seed([0]);
  await sweep.untilDecided();
  sweep.plan.taken();
  await sweep.send([0]);
  await sweep.untilDecided();
  return requestsOf(sweep).filter(([of]) => !OF_THE_START.has(of));
}

/** The points of the worker's requests to Kafka since the last call. */
function requestsOf(sweep: Sweep): [string, Point][] {
  const ofKafka = [...sweep.plan.taken()].filter(([of]) => isOfKafka(of));
  return ofKafka.flatMap(([of, points]) => points.map((point): [string, Point] => [of, point]));
}

async function strikeRequest(
  sweep: Sweep,
  conversation: string,
  point: Point,
  strike: Strike,
): Promise<void> {
  await sweep.seed([0]);
  await sweep.untilDecided();
  const before = await sweep.check();
  sweep.plan.set(conversation, [point]);
  await sweep.send([0]);
  await sweep.untilHeld(1);
  await sweep.strike(strike);
  const resumedMs = (await sweep.untilDecided()).get(0) ?? Number.NaN;
  const after = await sweep.check();
  swept.push({
    conversation,
    point,
    strike,
    resumedMs,
    readAgain: (after.get(0) ?? 0) - (before.get(0) ?? 0),
  });
}

test('the worker makes progress within 35 s of every point', () => {
  expect(swept.filter(({ resumedMs }) => !(resumedMs < PROGRESS_MS))).toEqual([]);
});
