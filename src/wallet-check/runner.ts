/** Runs scenarios against a wallet, one after the other, within limits of count and time. */
import { isDeepStrictEqual } from 'node:util';
import { LIMITS } from '../contract/limits';
import type { Clock } from '../lib/clock';
import {
  hasOtherStatus,
  interpretReply,
  type SuccessRule,
  type WalletAnswer,
  type WalletReply,
} from '../wallet/answer';
import { describeAnswer, describeExpectation, describeReply, isExpected, percentile } from './judge';
import { missingFor } from './needs';
import type { PlayerKind, TestPlayer, WalletProfile } from './profile';
import { type Call, call, callsOf, type Scenario, type ScenarioAmount, type Step } from './scenario';
import {
  fill,
  type PayloadJson,
  type PlaceValues,
  readAmount,
  valueAt,
  withField,
  withoutFields,
  withUnknownFields,
  writeAmount,
} from './template';
import type { WalletTransport } from './transport';

export interface CheckProblem {
  /** Null where the problem is not of one call. */
  readonly sent: string | null;
  readonly came: string;
  readonly expected: string;
}

export interface ScenarioResult {
  readonly scenario: Scenario;
  readonly status: 'passed' | 'failed' | 'not_run';
  /** Why it was not run. */
  readonly reason: string | null;
  readonly problems: readonly CheckProblem[];
  readonly requests: number;
  readonly seconds: number;
}

export interface RunnerDeps {
  readonly profile: WalletProfile;
  readonly transport: WalletTransport;
  readonly clock: Pick<Clock, 'now' | 'sleep'>;
  /** A word that no earlier run had. All ids of this run begin with it. */
  readonly run: string;
  readonly stop: AbortSignal;
  readonly progress: (done: number, result: ScenarioResult) => void;
}

export async function runScenarios(
  scenarios: readonly Scenario[],
  deps: RunnerDeps,
): Promise<ScenarioResult[]> {
  const budget = new Budget(deps);
  const results: ScenarioResult[] = [];
  for (const scenario of scenarios) {
    const result = await runScenario(scenario, deps, budget);
    results.push(result);
    deps.progress(results.length, result);
  }
  return results;
}

async function runScenario(scenario: Scenario, deps: RunnerDeps, budget: Budget): Promise<ScenarioResult> {
  const [startedAt, before] = [deps.clock.now(), budget.used];
  const result = (
    status: ScenarioResult['status'],
    reason: string | null,
    problems: readonly CheckProblem[] = [],
  ): ScenarioResult => ({
    ...{ scenario, status, reason, problems, requests: budget.used - before },
    seconds: (deps.clock.now() - startedAt) / 1_000,
  });
  const missing = missingFor(scenario, deps.profile) ?? budget.exceeded();
  if (missing !== undefined) return result('not_run', missing);
  const play = new Play(scenario, deps, budget);
  try {
    await play.run();
  } catch (error) {
    if (!(error instanceof BudgetError)) throw error;
    return result(play.problems.length > 0 ? 'failed' : 'not_run', error.message, play.problems);
  }
  return result(play.problems.length > 0 ? 'failed' : 'passed', null, play.problems);
}

class BudgetError extends Error {}

/** The requests and the time that are left. */
class Budget {
  used = 0;
  private readonly startedAt: number;

  constructor(private readonly deps: RunnerDeps) {
    this.startedAt = deps.clock.now();
  }

  exceeded(): string | undefined {
    const { requests, seconds } = this.deps.profile.limits;
    if (this.deps.stop.aborted) return 'the check was interrupted';
    if (this.used >= requests) return `the limit of ${requests} requests is reached (limits.requests)`;
    if (this.deps.clock.now() - this.startedAt >= seconds * 1_000)
      return `the limit of ${seconds} s is reached (limits.seconds)`;
    return undefined;
  }

  take(): void {
    const reason = this.exceeded();
    if (reason !== undefined) throw new BudgetError(reason);
    this.used++;
  }
}

interface Exchanged {
  readonly call: Call;
  readonly sent: string;
  readonly reply: WalletReply;
  readonly answer: WalletAnswer;
}

/** The attempts of a call that the wallet asks to send again, and the first wait between them. */
const ATTEMPTS = 4;
const FIRST_WAIT_MS = 100;
/** 2^63: one more than the largest signed integer of 64 bits. */
const OVERFLOW = 2n ** 63n;

/** One run of one scenario. */
class Play {
  readonly problems: CheckProblem[] = [];
  private readonly exchanges: Exchanged[] = [];
  private readonly balances = new Map<PlayerKind, bigint>();
  private reads = 0;

  constructor(
    private readonly scenario: Scenario,
    private readonly deps: RunnerDeps,
    private readonly budget: Budget,
  ) {}

  async run(): Promise<void> {
    for (const kind of this.playersWithBalance()) {
      const balance = await this.readBalance(kind);
      if (balance === undefined) return;
      this.balances.set(kind, balance);
    }
    for (const step of this.scenario.steps) await this.take(step);
  }

  /** The players whose balance the scenario compares, or bets as a whole. */
  private playersWithBalance(): Set<PlayerKind> {
    const staked = callsOf(this.scenario).filter(
      ({ amount }) => amount === 'all' || amount === 'more_than_all',
    );
    const compared = this.scenario.steps.filter(
      (step) => step.type === 'balance' || step.type === 'balance_among',
    );
    return new Set([...staked, ...compared].map(({ player = 'usual' }) => player));
  }

  private async take(step: Step): Promise<void> {
    switch (step.type) {
      case 'call':
        await this.sendAndJudge(step.call);
        return;
      case 'together':
        await this.sendTogether(step.calls, step.accepted);
        return;
      case 'latency':
        await this.measure(step.calls);
        return;
      case 'one_answer':
        this.compareAnswers(step.op);
        return;
      case 'balance':
        await this.compareBalance(step.player ?? 'usual', [step.change]);
        return;
      case 'balance_among':
        await this.compareBalance(step.player ?? 'usual', step.changes);
        return;
    }
  }

  private async sendTogether(calls: readonly Call[], accepted: number | undefined): Promise<void> {
    const exchanged = await Promise.all(calls.map((one) => this.sendAndJudge(one)));
    if (accepted === undefined) return;
    const count = exchanged.filter(({ answer }) => answer.type === 'ok').length;
    if (count !== accepted)
      this.add(`${calls.length} calls together`, `${count} successes`, `${accepted} successes`);
  }

  private async measure(calls: readonly Call[]): Promise<void> {
    const times: number[] = [];
    for (const one of calls) {
      const { reply } = await this.sendAndJudge(one);
      if (reply.type === 'http') times.push(reply.ms);
      // Later answers cannot change that half of them are too late.
      if (times.filter((ms) => ms > LIMITS.wallet_answer_goal.value).length > calls.length / 2) break;
    }
    for (const [share, name] of [
      [0.5, 'wallet_answer_goal'],
      [0.99, 'wallet_answer'],
    ] as const) {
      const ms = percentile(times, share);
      const { value } = LIMITS[name];
      const words = share === 0.5 ? 'half of the answers' : '99 of 100 answers';
      if (ms > value)
        this.add(
          `${calls.length} calls in turn`,
          `${words} within ${Math.round(ms)} ms`,
          `within ${value} ms`,
        );
    }
  }

  private compareAnswers(op: string): void {
    const { changing } = this.deps.profile.answers;
    const read = this.exchanges.filter(({ call, answer }) => call.op === op && answer.type !== 'no_answer');
    const contents = read.map(({ answer }) =>
      answer.type === 'ok' ? withoutFields(answer.body, changing) : answer,
    );
    const other = read.find((_, i) => !isDeepStrictEqual(contents[i], contents[0]));
    const [first] = read;
    if (first === undefined || other === undefined) return;
    const expected = `the same answer each time; the first was ${this.shown(first.reply)}. List fields that may differ under answers.changing`;
    this.add(other.sent, this.shown(other.reply), expected);
  }

  private async compareBalance(kind: PlayerKind, changes: readonly bigint[]): Promise<void> {
    const [before, after] = [this.balances.get(kind), await this.readBalance(kind)];
    if (before === undefined || after === undefined || changes.includes(after - before)) return;
    const expected = changes.map((change) => signed(change)).join(' or ');
    this.add(
      null,
      `the balance of the player "${kind}" changed by ${signed(after - before)}, from ${before} to ${after} minor units`,
      `a change by ${expected}`,
    );
  }

  private async readBalance(kind: PlayerKind): Promise<bigint | undefined> {
    const op = `balance-${++this.reads}`;
    const exchanged = await this.sendAndJudge(call('balance', op, { type: 'ok' }, { player: kind }));
    if (exchanged.answer.type !== 'ok') return undefined;
    const { answers, amounts } = this.deps.profile;
    const value = valueAt(exchanged.answer.body, answers.balance);
    const balance = readAmount(value, amounts, this.playerOf(kind).exponent);
    if (balance === undefined)
      this.add(
        exchanged.sent,
        this.shown(exchanged.reply),
        `an amount in ${amounts} units at ${answers.balance} (answers.balance, amounts)`,
      );
    return balance;
  }

  private async sendAndJudge(one: Call): Promise<Exchanged> {
    const exchanged = await this.sendUntilFinal(one);
    this.exchanges.push(exchanged);
    if (!isExpected(one.expect, exchanged.answer)) {
      const came = `${describeAnswer(exchanged.answer)}; ${this.shown(exchanged.reply)}`;
      this.add(exchanged.sent, came, describeExpectation(one.expect));
    }
    return exchanged;
  }

  /** Sends a call again where the wallet asks for a retry, as the service does. */
  private async sendUntilFinal(one: Call): Promise<Exchanged> {
    for (let attempt = 1; ; attempt++) {
      const exchanged = await this.send(one);
      if (exchanged.answer.type !== 'retry' || attempt === ATTEMPTS) return exchanged;
      await this.deps.clock.sleep(FIRST_WAIT_MS * 2 ** (attempt - 1), this.deps.stop);
    }
  }

  private async send(one: Call): Promise<Exchanged> {
    this.budget.take();
    const { profile, transport } = this.deps;
    const opId = this.idOf(one.op);
    const action = profile.actions.get(one.action);
    const path = one.unsupported ? (profile.unsupported.get(one.action) ?? '/') : (action?.path ?? '/');
    const payload = this.payloadOf(
      one,
      action?.payload ?? { meta: { op_id: '{{op_id}}' } },
      action?.enumField ?? null,
    );
    const rawBody = one.body === 'not_json' ? '{"request_id": "wallet-check", "payload": {' : undefined;
    const { wrongSignature, unknownFields, newConnection, cut } = one;
    const reply = await transport.call(one.action, payload, {
      opId,
      path,
      rawBody,
      wrongSignature,
      unknownFields,
      newConnection,
      cut,
    });
    if (this.deps.stop.aborted) throw new BudgetError('the check was interrupted');
    const sent = `POST ${path} ${rawBody ?? this.withoutTokens(JSON.stringify({ payload }))}${cut === undefined ? '' : ` (connection cut: ${cut.replace('_', ' ')})`}`;
    return { call: one, sent, reply, answer: interpretReply(one.action, reply, successRule(profile)) };
  }

  private payloadOf(one: Call, template: PayloadJson, enumField: string | null): PayloadJson {
    const player = this.playerOf(one.player ?? 'usual');
    const values: Record<string, string | undefined> = {
      op_id: this.idOf(one.op),
      player: player.id,
      token: player.token,
      amount: this.amountOf(one.amount, one, player),
      win: this.amountOf(one.win, one, player),
      currency: one.currency ?? player.currency,
      exponent: String(player.exponent + (one.exponentOff ?? 0)),
      round: this.idOf(one.round ?? 'round'),
      game: this.deps.profile.game,
      original: one.original === undefined ? (player.earlierBet ?? undefined) : this.idOf(one.original),
    };
    for (const place of one.without ?? []) values[place] = undefined;
    const present: PlaceValues = Object.fromEntries(
      Object.entries(values).flatMap(([place, value]) => (value === undefined ? [] : [[place, value]])),
    );
    const filled = fill(template, present) ?? {};
    const named =
      one.unknownEnum && enumField !== null ? withField(filled, enumField, 'X_WALLET_CHECK') : filled;
    return one.unknownFields ? withUnknownFields(named) : named;
  }

  private amountOf(amount: ScenarioAmount | undefined, one: Call, player: TestPlayer): string | undefined {
    if (amount === undefined) return undefined;
    const all = this.balances.get(one.player ?? 'usual') ?? 0n;
    const named = { all, more_than_all: all + 1n, overflow: OVERFLOW } as const;
    const minor = typeof amount === 'bigint' ? amount : named[amount];
    return writeAmount(minor, this.deps.profile.amounts, player.exponent);
  }

  private playerOf(kind: PlayerKind): TestPlayer {
    const player = this.deps.profile.players.get(kind);
    if (player !== undefined) return player;
    // The player "unknown" may be left out: a name that no wallet has will do.
    const usual = this.deps.profile.players.get('usual');
    return { ...(usual ?? NOBODY), id: this.idOf('no-such-player'), earlierBet: null };
  }

  private idOf(word: string): string {
    return `${this.deps.run}-${this.scenario.id}-${word}`;
  }

  /** Tokens open sessions, so no report holds them. Some writers of JSON put a backslash before a slash. */
  private withoutTokens(text: string): string {
    return [...this.deps.profile.players.values()].reduce(
      (rest, { token }) => rest.replaceAll(JSON.stringify(token).slice(1, -1), '(token)'),
      text.replaceAll('\\/', '/'),
    );
  }

  private shown(reply: WalletReply): string {
    return describeReply(reply, (text) => this.withoutTokens(text));
  }

  private add(sent: string | null, came: string, expected: string): void {
    this.problems.push({ sent, came: this.withoutTokens(came), expected: this.withoutTokens(expected) });
  }
}

const NOBODY: TestPlayer = { id: '', token: '', currency: '', exponent: 2, earlierBet: null };

function successRule({ answers: { success } }: WalletProfile): SuccessRule {
  if (success === null) return hasOtherStatus;
  const { field, values } = success;
  return (body) => values.includes(String(valueAt(body, field)));
}

function signed(change: bigint): string {
  return change > 0n ? `+${change}` : String(change);
}
