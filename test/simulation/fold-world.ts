/**
 * Processes that count promotions, in virtual time: their own code over a model of the store. They are
 * killed, frozen and stopped at each await. The store loses transactions, rows of another store come, a
 * promotion is added, and somebody counts again.
 */
import pino from 'pino';
import { makeRandom, type Random } from '../../dev/random';
import { makeFold, type Results } from '../../src/fold/fold';
import { runFold } from '../../src/fold/run';
import { BATCH_NUMBERS } from '../../src/fold/statements';
import type { Clock } from '../../src/lib/clock';
import { makePromotionResults } from '../../src/promotion-store/results';
import { BEFORE_ALL } from '../../src/promotions/calendar';
import type { RoundCredit } from '../../src/promotions/ledger-entry';
import { DAILY_RACE, FLOWS, feedOf, LATE_CONFIRMED } from '../support/promotion-feeds';
import { definitionsOf } from '../support/promotions';
import { type FoldNetwork, FoldPool, strikeInWait } from './fold-client';
import { erasePart, namesErased } from './fold-erasure';
import { compiledOf, type ExpectedState, expectedState, storedState } from './fold-expected';
import { type FoldCoverage, FoldFaults } from './fold-faults';
import { decided, FoldIntake, type WaitingCredit } from './fold-intake';
import { REFUND_KIND } from './fold-ledger-statements';
import { FoldStoreModel } from './fold-store';
import { type FoldTables, keyOfRow, lastNumberOf, type PromotionRow } from './fold-tables';
import { Actor, Scheduler } from './scheduler';

/**
 * A leaderboard of this day closes in the run, and its ranks follow from time alone. The month ends, too, so
 * that retention can drop it.
 */
const MONTH_END = Date.parse('2026-11-01T00:00:00Z');
/** The first events are decided so long before. */
const BEFORE_MONTH_END_MS = [4_000, 15_000] as const;
const FAULTS_WITHIN_MS = 60_000;
/** The day's leaderboard is closed, and a process that was frozen goes on. Most runs are over then. */
const FIRST_END_MS = 95_000;
/** Later than the waits after all failures. */
const END_MS = 230_000;
const BETWEEN_ENDS_MS = 10_000;
const LEASE_MS = 10_000;
const INTERVAL_MS = 3_000;
const CERTAIN_AFTER_MICROS = 60_000_000n;
/** Batches of which a run may know no rounds, as an older version of the process leaves them. */
const UNRECORDED = 20;
/** Progress is compared with the ledger after one of so many commits. */
const COMPARED_ONE_OF = 6;
const SPANS = { rows: 30, ms: 400 };
/** Slices have several parts, players several pages, and most rounds are large. */
const LIMITS = { pageRows: 3, stepRows: 7, largeRound: 1 };
const SILENT = pino({ level: 'silent' });

export interface FoldRun {
  readonly problems: readonly string[];
  readonly events: ReadonlySet<string>;
  readonly trace: readonly string[];
}

/** Breaks a process on purpose, to prove that the monitor notices it. */
export type FoldSabotage = (results: Results) => Results;

/** Plays one seed to its end. */
export async function playFold(
  seed: number,
  coverage: FoldCoverage,
  { isTraced = false, sabotage = (results: Results) => results } = {},
): Promise<FoldRun> {
  const world = new FoldWorld(seed, coverage, isTraced, sabotage);
  await world.play();
  return { problems: world.problems, events: world.events, trace: world.scheduler.trace ?? [] };
}

const versionRows = (flows: readonly string[]): PromotionRow[] =>
  definitionsOf(...flows).map((definition, place) => ({
    promotionNo: place + 1,
    documentVersion: 1,
    version: 1,
    definition,
    since: null,
    until: null,
    removedAt: null,
  }));
const VERSIONS = versionRows([...Object.values(FLOWS), DAILY_RACE, LATE_CONFIRMED]);

/** Some of them are corrected to a third player. */
const creditsOf = (random: Random, credits: readonly RoundCredit[]): WaitingCredit[] =>
  credits.flatMap(({ roundId: round, brand, playerRef: player }) => [
    { round, brand, player },
    ...(random.chance(0.5) ? [{ round, brand, player: 'p-corrected' }] : []),
  ]);

interface FoldProcess {
  readonly actor: Actor;
  readonly end: AbortController;
}

class FoldWorld {
  readonly problems: string[] = [];
  readonly events = new Set<string>();
  readonly scheduler: Scheduler;
  private readonly random: Random;
  private readonly faults: FoldFaults;
  private readonly store: FoldStoreModel;
  private readonly intake: FoldIntake;
  private readonly network: FoldNetwork;
  private readonly chaos = new Actor('chaos');
  private readonly processes = new Map<Actor, FoldProcess>();
  private started = 0;
  private commits = 0;
  /** A month was dropped before a rebuild, or the promotion that was added, had all that its events count. */
  private isRebuildIncomplete = false;
  private readonly added: readonly PromotionRow[];

  constructor(
    private readonly seed: number,
    coverage: FoldCoverage,
    isTraced: boolean,
    private readonly sabotage: FoldSabotage,
  ) {
    const random = makeRandom(seed * 11 + 5);
    this.random = random;
    this.scheduler = new Scheduler(makeRandom(seed * 11 + 6), isTraced);
    this.faults = new FoldFaults(seed, random, coverage);
    const isAdded = random.chance(0.4);
    this.added = isAdded ? VERSIONS.slice(0, 2) : [];
    const ledger = {
      history: [],
      dropped: null,
      erasure: null,
      refunds: new Map(),
      credits: [],
      versions: VERSIONS.slice(this.added.length),
      recordedAfter: random.chance(0.5) && !this.faults.needsOlder ? -1 : UNRECORDED * BATCH_NUMBERS - 1,
    };
    const epoch = MONTH_END - random.between(...BEFORE_MONTH_END_MS);
    this.store = new FoldStoreModel(this.scheduler, epoch, ledger, (before, after) =>
      this.monitor(before, after),
    );
    const feed = feedOf(random);
    const credits = this.faults.hasCredits ? feed.credits : [];
    this.intake = new FoldIntake(this.store, random, feed.events, creditsOf(random, credits));
    this.network = {
      store: this.store,
      faults: this.faults,
      random,
      strike: (fault, actor) => this.strike(fault, actor),
      onDefect: (error) => this.note(error instanceof Error ? String(error.stack) : String(error)),
    };
  }

  async play(): Promise<void> {
    const { random, scheduler } = this;
    for (let n = 0; n < 2; n++) this.start();
    this.plan(this.added.length > 0 ? 1 : 0, () => this.add());
    const { needs } = this.faults;
    this.plan(needs === 'arrival' || random.chance(0.4) ? 1 : 0, () => this.arrive());
    this.plan(needs === 'rebuild' || random.chance(0.5) ? 1 : 0, () => this.countAgain());
    this.plan(needs === 'drop' || random.chance(0.4) ? 1 : 0, () => this.drop());
    this.plan(random.chance(0.4) ? 1 : 0, () => this.erase(random.pick(['p1', 'p2', 'p3', 'pé'])));
    this.plan(needs === 'stop' ? 2 : 0, () => [...this.processes.values()][0]?.end.abort());
    scheduler.after(FAULTS_WITHIN_MS, this.chaos, 'no more faults', () => {
      this.faults.areOver = true;
    });
    for (let end = FIRST_END_MS; end <= END_MS; end += BETWEEN_ENDS_MS) {
      while (scheduler.now() < end && this.problems.length === 0 && (await scheduler.step()));
      if (this.problems.length > 0) return;
      const problem = this.endProblem();
      if (problem === null) return;
      if (end + BETWEEN_ENDS_MS > END_MS) this.note(problem);
    }
  }

  private plan(times: number, run: () => void): void {
    for (let n = 0; n < times; n++)
      this.scheduler.after(this.random.between(2_000, FAULTS_WITHIN_MS), this.chaos, 'plan', run);
  }

  private note(problem: string): void {
    const at = (this.scheduler.now() / 1_000).toFixed(3);
    this.problems.push(`seed ${this.seed}, ${at} s, after ${this.faults.struck.join(', ')}: ${problem}`);
  }

  // --- processes

  private start(): void {
    const actor = new Actor(`process ${++this.started}`);
    const end = new AbortController();
    this.processes.set(actor, { actor, end });
    const pool = new FoldPool(this.network, actor);
    const beside = this.faults.hasTwoConnections ? pool : null;
    const fold = makeFold(pool, this.sabotage(makePromotionResults(beside, LIMITS)), {
      holder: actor.name,
      leaseMs: LEASE_MS,
      slice: SPANS,
      fill: SPANS,
      now: () => this.scheduler.now(),
    });
    const clock = this.clockOf(actor);
    this.scheduler.soon(actor, 'run', () => {
      const run = runFold(
        { fold, clock, logger: SILENT, intervalMs: INTERVAL_MS, observe: () => undefined },
        end.signal,
      );
      // As the process itself: a failed release ends it, too.
      run
        .then(() => fold.release())
        .catch(() => undefined)
        .finally(() => this.replace(actor));
    });
  }

  private replace(actor: Actor): void {
    actor.alive = false;
    if (this.processes.delete(actor))
      this.scheduler.after(this.random.between(50, 4_000), this.chaos, 'start', () => this.start());
  }

  private clockOf(actor: Actor): Clock {
    const { scheduler } = this;
    return {
      now: () => scheduler.now(),
      after: () => {
        throw new Error('a fold uses no timer');
      },
      cancel: () => undefined,
      sleep: (ms, signal) => {
        strikeInWait(this.network, actor);
        return new Promise((resolve) => {
          const done = () => {
            cancel();
            signal.removeEventListener('abort', done);
            resolve();
          };
          const cancel = scheduler.after(ms, actor, 'sleep', done);
          if (signal.aborted) done();
          else signal.addEventListener('abort', done);
        });
      },
    };
  }

  private strike(fault: 'killed' | 'stopped' | 'failover' | 'store away', actor: Actor): void {
    const { store, random } = this;
    switch (fault) {
      case 'killed':
        if (actor.alive) this.replace(actor);
        break;
      case 'stopped':
        this.processes.get(actor)?.end.abort();
        break;
      case 'failover': {
        const before = store.committed.tables;
        store.fallBack(random.between(0, 12), random.below(33));
        this.intake.readAgain();
        if (before !== store.committed.tables) this.events.add('the store lost slices');
        break;
      }
      case 'store away':
        store.isAway = true;
        store.endAll();
        store.openBatches.clear();
        this.intake.readAgain();
        this.scheduler.after(random.between(500, 20_000), store.actor, 'back', () => {
          store.isAway = false;
        });
        break;
    }
  }

  // --- what else happens

  /** Somebody applies a promotion that counts the events of before: never within a slice (P21). */
  private add(): void {
    const { store } = this;
    if (store.holder !== null || store.isAway) {
      this.scheduler.after(200, this.chaos, 'apply', () => this.add());
      return;
    }
    const { ledger } = store.committed;
    // A definition that counts the events of a dropped month is refused.
    if (ledger.dropped !== null) return;
    const versions = [...ledger.versions, ...this.added];
    store.write({ ...ledger, versions: versions.sort((a, b) => a.promotionNo - b.promotionNo) });
    this.events.add('a promotion was added');
  }

  /** Retention drops the month that is over: never within a slice or a batch, which read or write it. */
  private drop(): void {
    const { store } = this;
    const { ledger, tables } = store.committed;
    const to = BigInt(MONTH_END) * 1_000n;
    if (store.isAway || store.holder !== null || store.openBatches.size > 0 || store.now() < to) {
      this.scheduler.after(50, this.chaos, 'drop', () => this.drop());
      return;
    }
    const shown = tables.generations.get(tables.fold?.generation ?? -1);
    const isCounted = ({ promotionNo, version }: PromotionRow) =>
      shown === undefined || tables.counted.has(keyOfRow(shown.generation, promotionNo, version));
    const filling = [...tables.generations.values()].find(({ state }) => state === 'filling');
    const countedTo = shown?.after ?? -1;
    // A rebuild finds no dropped entries for these refunds and attributions, which the shown results have.
    const isMissed = (no: number) => filling !== undefined && no > filling.after && no <= countedTo;
    this.isRebuildIncomplete =
      ledger.history.some(({ kind, verdictId }) => kind === REFUND_KIND && isMissed(verdictId)) ||
      ledger.credits.some(({ changeNo }) => isMissed(changeNo)) ||
      (this.added.some((each) => ledger.versions.includes(each)) &&
        (filling !== undefined || !ledger.versions.every(isCounted)));
    const [verdicts, history] = [true, false].map((isOld) =>
      ledger.history.filter(({ decidedAt }) => decidedAt < to === isOld),
    );
    const dropped = { to, verdicts: verdicts ?? [], countedTo };
    store.write({ ...ledger, history: history ?? [], dropped });
  }

  /** Calls of an erasure, until all verdicts of the player are changed. A standby may lack some of them. */
  private erase(player: string): void {
    const { store, random, scheduler } = this;
    if (store.isAway || store.holder !== null || store.openBatches.size > 0) {
      scheduler.after(50, this.chaos, 'erasure', () => this.erase(player));
      return;
    }
    if (store.committed.ledger.erasure?.isDone !== true)
      erasePart(store, player, () => random.chance(0.5), random.chance(0.5));
    scheduler.after(random.between(500, 6_000), this.chaos, 'erasure', () => this.erase(player));
  }

  /** Rows of another store come, with numbers below those of the cursor. */
  private arrive(): void {
    const { store, random } = this;
    if (store.isAway) return;
    const { events } = feedOf(makeRandom(this.seed + 1_000_000));
    const arriving = random
      .shuffled(events)
      .slice(0, 25)
      .map((event) => ({
        ...event,
        id: `other-${event.id}`,
        round: event.round === null ? null : `other-${event.round}`,
      }));
    const { ledger } = store.committed;
    const { history, refunds } = decided({ ...ledger, history: [], dropped: null }, arriving, 0, store.now());
    store.arrivals++;
    store.write({ ...ledger, history: [...ledger.history, ...history], refunds });
    this.events.add('rows of another store came');
  }

  private countAgain(): void {
    const actor = new Actor('somebody');
    const options = { holder: 'somebody', leaseMs: LEASE_MS, slice: SPANS, fill: SPANS, now: () => 0 };
    const fold = makeFold(new FoldPool(this.network, actor), makePromotionResults(null), options);
    fold.rebuild('a try').then(
      (hasBegun) => hasBegun && this.events.add('somebody counted again'),
      () => undefined,
    );
  }

  // --- the promises

  private monitor(before: FoldTables, after: FoldTables): void {
    this.commits++;
    const ids = new Map<string, Set<number>>();
    for (const [place, { id, change }] of after.completions.entries()) {
      const changes = ids.get(id) ?? new Set();
      ids.set(id, changes);
      if (place < before.completions.length) changes.add(change);
      else if ((change === 0) === changes.has(0) || changes.has(1))
        this.note(`the change ${change} of ${id} follows ${[...changes].join()}`);
      changes.add(change);
    }
    const shown = after.generations.get(after.fold?.generation ?? -1);
    if (shown !== undefined && shown.lineage !== this.store.lineage()) return;
    if (this.commits % COMPARED_ONE_OF === 0) this.compareShown(after);
  }

  /** Between two slices, progress and completions are those of the ledger up to the cursor. */
  private compareShown(tables: FoldTables): void {
    const generation = tables.fold?.generation ?? -1;
    const row = tables.generations.get(generation);
    if (row === undefined || this.store.arrivals > 0) return;
    const { ledger } = this.store.committed;
    // The next slices follow an erasure.
    const { erasure } = ledger;
    if (erasure !== null && (!erasure.isDone || erasure.upTo > row.after || tables.joins.size > 0)) return;
    const counted = [...tables.counted.keys()].map((key) => key.split('\0'));
    const versions = ledger.versions.filter(({ promotionNo }) =>
      counted.some(([of, no]) => Number(of) === generation && Number(no) === promotionNo),
    );
    const since = this.comparedSince();
    const expected = expectedState(ledger, this.compiled(versions), { upTo: row.after, asOf: 0n, since });
    const found = this.compare(expected, storedState(tables, ledger.versions, { generation, since }), true);
    if (found !== '') this.note(found);
  }

  /**
   * Windows from before are not compared. Once a month is dropped, nothing counts its events again. A
   * promotion that was added, rows of another store and a rebuild under way would need them.
   */
  private comparedSince(): bigint {
    const { store, isRebuildIncomplete } = this;
    const { dropped } = store.committed.ledger;
    const isUnsure = isRebuildIncomplete || store.arrivals > 0 || this.movesErasedRounds();
    return dropped !== null && isUnsure ? dropped.to : BEFORE_ALL;
  }

  /** An erasure has taken rounds from players, who keep a trace that no count of the ledger has. */
  private movesErasedRounds(): boolean {
    return this.store.committed.ledger.credits.some(({ erases }) => erases === true);
  }

  private compiled(versions: readonly PromotionRow[]) {
    return versions.map((row) => ({ ...row, promotion: compiledOf(row) }));
  }

  /** @returns the first differences, or an empty text */
  private compare(expected: ExpectedState, stored: ExpectedState, isMidway: boolean): string {
    const differences = (a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>) =>
      [...new Set([...a.keys(), ...b.keys()])]
        .filter((key) => a.get(key) !== b.get(key))
        .map((key) => `${key}: ${a.get(key)} in the ledger, ${b.get(key)} in the store`);
    // Ranks and confirmations follow from time. Ids of attempts may be others once rows came between, or
    // once an erasure has joined them. Between two calls of an erasure, a leaderboard has both names of the
    // player, and players with equal points may have other ranks afterwards.
    const isOfTime = (name: string) => name.startsWith('daily') || name.startsWith('race');
    const hasErasure = this.store.committed.ledger.erasure !== null;
    const movesErased = this.movesErasedRounds();
    const isUnsure = (name: string) => movesErased || name.includes(' erased:');
    const hasOtherIds = (name: string) => this.store.arrivals > 0 || isUnsure(name);
    const timeless = ({ held }: ExpectedState) =>
      new Map(
        [...held]
          .map(([id, name]) => [id, isMidway ? name.replace(' confirmed', '') : name] as const)
          .filter(([, name]) => !((isMidway || hasErasure) && isOfTime(name)))
          .map(([id, name]) => (hasOtherIds(name) ? ([name, ''] as const) : ([id, name] as const))),
      );
    const withoutNumbers = ({ progress }: ExpectedState) =>
      new Map(
        [...progress]
          .map(
            ([key, line]) =>
              [key, isUnsure(key) ? line.replace(/ score (\d+) .*/, ' score $1') : line] as const,
          )
          .filter(([, line]) => line !== ' score 0'),
      );
    const found = [
      ...differences(withoutNumbers(expected), withoutNumbers(stored)),
      ...differences(timeless(expected), timeless(stored)),
    ];
    return found.slice(0, 4).join('\n  ');
  }

  /** The first difference from the ledger at rest; null: there is none. */
  private endProblem(): string | null {
    const { store } = this;
    const { tables, ledger } = store.committed;
    const [row, ...others] = tables.generations.values();
    if (!this.intake.isDone) return 'events are not decided';
    if (ledger.erasure?.isDone === false) return 'an erasure is not done';
    if (namesErased(ledger, tables)) return 'an erased player is named';
    if (row === undefined || others.length > 0) return `${tables.generations.size} generations are left`;
    if (row.after !== lastNumberOf(store.lastBatchNo))
      return `verdicts up to ${row.after} are counted, and batches up to ${store.lastBatchNo} were given`;
    const asOf = store.now() - CERTAIN_AFTER_MICROS;
    const since = this.comparedSince();
    const stored = storedState(tables, ledger.versions, { generation: row.generation, since });
    const expected = expectedState(ledger, this.compiled(ledger.versions), { upTo: row.after, asOf, since });
    const found = this.compare(expected, stored, false);
    if (found !== '') return found;
    if (row.newestAt === null && ledger.dropped === null) return 'nothing was counted';
    if (ledger.dropped !== null) this.events.add('a month was dropped');
    if (ledger.erasure !== null) this.events.add('a player was erased');
    if (this.movesErasedRounds()) this.events.add('an erasure took rounds from players');
    if (ledger.credits.length > 0) this.events.add('rounds were attributed');
    if (row.generation > 1) this.events.add('a generation replaced another');
    for (const name of stored.held.values()) {
      if (name.startsWith('daily')) this.events.add('a leaderboard closed');
      if (name.endsWith('confirmed')) this.events.add('a completion was confirmed');
    }
    if (tables.completions.some(({ change }) => change === 1)) this.events.add('a completion was revoked');
    return null;
  }
}
