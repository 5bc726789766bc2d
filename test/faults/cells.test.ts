/**
 * Two cells on real servers: stores, groups and topics of their own. An operator moves from one to the other
 * under a steady load of sends, and processes are killed in every phase.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep, until } from '../../dev/servers/deadline';
import { HOOK, secret } from '../stream/scene';
import { connectionOf, inWorld, type World } from '../stream/world';
import { aBet, aLogin, anOperator, aWin, bytesOf, type EventJson } from '../support/builders';
import { type Outgoing, withProducer } from '../support/kafka';
import { withAdmin } from '../support/servers';
import { senderTo, startWebhook } from '../support/webhook';
import { killWorkers, RunningCommand, type Settings } from '../support/worker';
import { untilCaughtUp, verifySound } from './promises';

const MOVE_DEADLINE_MS = 60_000;
const PARTITIONS = 2;

/** The ends of senders that a failed test has left running. */
const ends = new Set<() => Promise<void>>();
let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'promo-cells-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));
afterEach(async () => {
  await Promise.allSettled([...ends].map((end) => end()));
  ends.clear();
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

  constructor(topics: Readonly<Record<string, string>>) {
    ends.add(() => this.stop());
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

/** Sends bets of acme by the webhook, through an ingress. Each event is repeated until the answer is 200. */
class WebhookSender {
  /** The webhook to which the ingress leads; null: the ingress answers 503 by itself. */
  target: ReturnType<typeof senderTo> | null = null;
  readonly ids: string[] = [];
  /** The statuses of the webhooks. */
  readonly statuses = new Set<number>();
  private isStopped = false;
  private inFlight = 0;
  private readonly ended: Promise<unknown>;

  constructor(senders: number) {
    ends.add(() => {
      this.target = null;
      return this.stop();
    });
    this.ended = Promise.all(Array.from({ length: senders }, (_, sender) => this.send(sender)));
    // The test gets the error once it stops the senders.
    this.ended.catch(() => undefined);
  }

  /** Resolves when no request is in flight. */
  async untilIdle(): Promise<void> {
    await until('no request is in flight', MOVE_DEADLINE_MS, () => this.inFlight === 0);
  }

  /** Resolves once all events are answered. */
  async stop(): Promise<void> {
    this.isStopped = true;
    await this.ended;
  }

  private async send(sender: number): Promise<void> {
    for (let n = 0; !this.isStopped; n++) {
      const event_id = `hook-${sender}-${n}`;
      this.ids.push(event_id);
      const event = aBet({ event_id, round_id: `r-hook-${n}` });
      while (!(await this.answers(event))) {
        if (this.isStopped && this.target === null) return;
        await sleep(20);
      }
      await sleep(20);
    }
  }

  private async answers(event: EventJson): Promise<boolean> {
    if (this.target === null) return false;
    this.inFlight++;
    try {
      const { status } = await this.target(event);
      this.statuses.add(status);
      return status === 200;
    } finally {
      this.inFlight--;
    }
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

/** Resolves once so many records of Kafka are decided. */
const untilRead = (world: World<string>, wanted: number): Promise<void> =>
  until(`${wanted} records are decided`, MOVE_DEADLINE_MS, async () => {
    const { records = 0 } = await world.balance();
    return records >= wanted;
  });

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
      const acme = anOperator({
        id: 'acme',
        connections: [connectionOf(a.topics.acme), { id: HOOK, transport: 'webhook' }],
      });
      const bravo = operatorOf('bravo', a.topics.bravo);
      const charlie = operatorOf('charlie', b.topics.charlie);
      await a.apply([acme, bravo]);
      await b.apply([charlie]);
      await b.rows('update promo_store.player_keys set key = promo_store.new_player_key()');
      const [[first = null] = []] = await a.rows(`select promo.number_cell('a', 0, 4)`);
      await b.rows(`select promo.number_cell('b', 1, 4, $1)`, [first]);

      const hookIn = async ({ writerUrl }: World<string>) => {
        const { port } = await startWebhook({ DATABASE_URL: writerUrl }, { [HOOK]: secret });
        return senderTo(port, HOOK, secret);
      };
      const ingress = new WebhookSender(3);
      ingress.target = await hookIn(a);
      const sender = new Sender({ acme: a.topics.acme, bravo: a.topics.bravo, charlie: b.topics.charlie });
      const workerB = await b.started();
      const workerA = await a.started();
      await untilRead(a, 300);
      await workerA.kill();
      const heir = a.start();
      await untilRead(a, 900);

      // Step 2: the ingress answers 503. The operator leaves the reference data while no worker runs there.
      const ofCellA = ingress.ids.length;
      ingress.target = null;
      await ingress.untilIdle();
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
      ingress.target = await hookIn(b);
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
      await Promise.all([sender.stop(), ingress.stop()]);
      await untilCaughtUp(a, a.topics.bravo);
      await untilCaughtUp(b, a.topics.acme);
      await untilCaughtUp(b, b.topics.charlie);

      // Each event has one verdict over both cells.
      const [inA, inB] = [await keysIn(a), await keysIn(b)];
      const sent = [...sender.events.keys(), ...ingress.ids.map((id) => `acme ${id}`)];
      expect([...inA, ...inB].sort()).toEqual(sent.sort());
      // By the webhook, both cells have decided events, and no sender was refused for good.
      expect(ofCellA).toBeGreaterThan(10);
      expect(ingress.ids.length).toBeGreaterThan(ofCellA + 10);
      expect([...ingress.statuses]).toEqual([200]);
      expect(inA.filter((key) => !key.startsWith('bravo '))).toEqual([]);
      expect(await sumOf([a, b], 'select count(*) from promo.ledger')).toBe(sent.length);
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
      expect(new Set(ids.flat(2)).size).toBe(sent.length);
      // The old group still has offsets of the moved topics. The procedure deletes them by a tool of Kafka.
      await verifySound(b);
      expect(b.logs()).not.toContain('records were passed over');
    }),
  ));
