/**
 * Two cells on real servers: stores, groups and topics of their own. An operator moves from one to the other
 * under a steady load of sends, and processes are killed in every phase.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep, until } from '../../dev/servers/deadline';
import { connectionOf, inWorld, type World } from '../stream/world';
import { aBet, aLogin, anOperator, aWin, bytesOf, type EventJson } from '../support/builders';
import { type Outgoing, withProducer } from '../support/kafka';
import { withAdmin } from '../support/servers';
import { killWorkers, RunningCommand, type Settings } from '../support/worker';
import { untilCaughtUp, verifySound } from './promises';

const MOVE_DEADLINE_MS = 60_000;
const PARTITIONS = 2;

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'promo-cells-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));
afterEach(async () => {
  await Sender.stopAll();
  await killWorkers();
});

/** Sends new events, and events of before once more, until it is stopped. */
class Sender {
  /** Content by feed and event_id. */
  readonly events = new Map<string, EventJson>();
  resent = 0;
  /** Ids of acme that were sent once more after the move. */
  readonly resentAfterMove = new Set<string>();
  hasMoved = false;
  private isStopped = false;
  private readonly ended: Promise<void>;
  private static readonly all = new Set<Sender>();

  static async stopAll(): Promise<void> {
    await Promise.all([...Sender.all].map((sender) => sender.stop()));
  }

  constructor(topics: Readonly<Record<string, string>>) {
    Sender.all.add(this);
    this.ended = withProducer(async (producer) => {
      for (let n = 0; !this.isStopped; n++) {
        for (const [operator, topic] of Object.entries(topics))
          await producer.send({
            topic,
            acks: -1,
            messages: this.next(operator, n).map((record) => ({ partition: 0, ...record })),
          });
        await sleep(20);
      }
    });
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    Sender.all.delete(this);
    await this.ended;
  }

  idsOf(operator: string): string[] {
    return [...this.events.keys()]
      .filter((key) => key.startsWith(`${operator} `))
      .map((key) => key.slice(operator.length + 1));
  }

  /** Two events of one round, a login, and in each third turn an event of before. */
  private next(operator: string, n: number): Outgoing[] {
    const round_id = `r-${operator}-${Math.floor(n / 2)}`;
    const fresh = [
      aBet({ event_id: `b-${n}`, round_id }),
      aWin({ event_id: `w-${n}`, round_id }),
      aLogin({ event_id: `l-${n}` }),
    ];
    // One of the first events, which the old cell decides.
    const old = n % 3 === 2 ? this.events.get(`${operator} b-${n % 60}`) : undefined;
    for (const event of fresh) this.events.set(`${operator} ${event.event_id}`, event);
    if (old !== undefined) {
      this.resent++;
      if (operator === 'acme' && this.hasMoved) this.resentAfterMove.add(String(old.event_id));
    }
    return [...fresh, ...(old === undefined ? [] : [old])].map((event) => ({
      value: bytesOf(event),
      partition: n % PARTITIONS,
    }));
  }
}

/** Runs the move and kills it once its output has the text, for each text. Then runs it to its end. */
async function moveWithKills(
  from: World<string>,
  to: World<string>,
  offsets: string,
  kills: readonly string[],
) {
  const address = join(directory, 'to.url');
  writeFileSync(address, `${to.databaseUrl}\n`);
  const settings: Settings = { DATABASE_URL: from.databaseUrl };
  const args = ['move-operator', '--operator', 'acme', '--to', address, '--offsets', offsets, '--confirm'];
  const killed: string[] = [];
  for (const text of kills) {
    const command = new RunningCommand(args, settings);
    await until(
      `the move says ${text}`,
      MOVE_DEADLINE_MS,
      () => command.output().includes(text) || command.hasEnded(),
    );
    const { signal } = await command.kill();
    if (signal === 'SIGKILL') killed.push(text);
  }
  const command = new RunningCommand(args, settings);
  const { code } = await command.ending(MOVE_DEADLINE_MS);
  if (code !== 0) throw new Error(`move-operator ended with ${code}\n${command.output()}`);
  return killed;
}

async function setOffsets(world: World<string>, csv: string): Promise<void> {
  const lines = readFileSync(csv, 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.split(','));
  const topics = new Set(lines.map(([topic = '']) => topic));
  await withAdmin(async (admin) => {
    for (const topic of topics)
      await admin.setOffsets({
        groupId: world.groupId,
        topic,
        partitions: lines
          .filter(([of]) => of === topic)
          .map(([, partition, offset = '']) => ({ partition: Number(partition), offset })),
      });
  });
}

const keysIn = async (world: World<string>): Promise<string[]> =>
  (await world.rows(`select operator_id || ' ' || event_id from promo.verdicts`)).map(([key]) => String(key));
const sumOf = async (worlds: readonly World<string>[], query: string): Promise<number> => {
  const counts = await Promise.all(worlds.map((world) => world.rows(query)));
  return counts.reduce((sum, rows) => sum + Number(rows[0]?.[0]), 0);
};

test('an operator moves to another cell under load, with kills in every phase: each event counts once, and resends are duplicates there [K1] [K3] [U1]', () =>
  inWorld({ topics: { acme: PARTITIONS, bravo: PARTITIONS } }, (a) =>
    inWorld({ topics: { charlie: PARTITIONS } }, async (b) => {
      const operatorOf = (id: string, topic: string) =>
        anOperator({ id, connections: [connectionOf(topic)] });
      const acme = operatorOf('acme', a.topics.acme);
      const bravo = operatorOf('bravo', a.topics.bravo);
      const charlie = operatorOf('charlie', b.topics.charlie);
      await a.apply([acme, bravo]);
      await b.apply([charlie]);
      await b.rows('update promo_store.player_keys set key = promo_store.new_player_key()');
      const [[first = null] = []] = await a.rows(`select promo.number_cell('a', 0, 4)`);
      await b.rows(`select promo.number_cell('b', 1, 4, $1)`, [first]);

      const sender = new Sender({ acme: a.topics.acme, bravo: a.topics.bravo, charlie: b.topics.charlie });
      const workerB = await b.started();
      const workerA = await a.started();
      await a.untilDecided(300);
      await workerA.kill();
      const heir = a.start();
      await a.untilDecided(900);

      // Step 2: the operator leaves the reference data of cell a while no worker runs there.
      expect(await heir.stop()).toEqual({ code: 0, signal: null });
      await a.apply([bravo]);
      a.start();
      // Step 3.
      const offsets = join(directory, 'acme.csv');
      const phases = [
        'fenced',
        'copied: event_keys',
        'copied: history',
        'compared',
        'switched',
        'deleted: event_keys',
      ];
      const killed = await moveWithKills(a, b, offsets, phases);
      expect(killed.length).toBeGreaterThanOrEqual(4);
      expect(await a.rows(`select state from promo.moves`)).toEqual([['done']]);
      // Steps 4 and 5.
      expect(await workerB.stop()).toEqual({ code: 0, signal: null });
      await setOffsets(b, offsets);
      await b.apply([acme, charlie]);
      sender.hasMoved = true;
      const next = b.start();
      await until('cell b decides new events of the operator', MOVE_DEADLINE_MS, async () => {
        const [[count] = []] = await b.rows(
          `select count(*) from promo.deliveries where operator_id = 'acme'`,
        );
        return Number(count) > 20;
      });
      await next.kill();
      b.start();
      await until(
        'events of the old cell come once more',
        MOVE_DEADLINE_MS,
        () => sender.resentAfterMove.size > 10,
      );
      await sender.stop();
      await untilCaughtUp(a, a.topics.bravo);
      await untilCaughtUp(b, a.topics.acme);
      await untilCaughtUp(b, b.topics.charlie);

      // Each event has one verdict over both cells.
      const [inA, inB] = [await keysIn(a), await keysIn(b)];
      expect([...inA, ...inB].sort()).toEqual([...sender.events.keys()].sort());
      expect(inA.filter((key) => !key.startsWith('bravo '))).toEqual([]);
      expect(await sumOf([a, b], 'select count(*) from promo.ledger')).toBe(sender.events.size);
      // Each resend is one duplicate, with its content recognized, in the cell that has the operator.
      expect(await sumOf([a, b], 'select count(*) from promo.deliveries')).toBe(sender.resent);
      expect(await sumOf([a, b], 'select count(*) from promo.deliveries where content_differs')).toBe(0);
      expect(await sumOf([a, b], 'select count(*) from promo.anomalies')).toBe(0);
      expect(await sumOf([a, b], 'select sum(dead_letters) from promo.partitions')).toBe(0);
      const movedIds = new Set(
        (
          await b.rows(
            `select event_id from promo.verdicts where operator_id = 'acme' and verdict_id / 8192 % 4 = 0`,
          )
        ).flat(),
      );
      const ofOldCell = [...sender.resentAfterMove].filter((id) => movedIds.has(id));
      expect(ofOldCell.length).toBeGreaterThan(10);
      // Each verdict id is given once.
      const ids = await Promise.all(
        [a, b].map((world) => world.rows('select verdict_id from promo.verdicts')),
      );
      expect(new Set(ids.flat(2)).size).toBe(sender.events.size);
      // The old group still has offsets of the moved topics. The procedure deletes them by a tool of Kafka.
      await verifySound(b);
      expect(b.logs()).not.toContain('records were passed over');
    }),
  ));
