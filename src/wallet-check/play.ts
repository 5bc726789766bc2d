/** Plays one scenario: sends the calls of its steps, and compares answers, balances and times. */
import { isDeepStrictEqual } from 'node:util';
import { LIMITS } from '../contract/limits';
import { isObject } from '../lib/json';
import { interpretReply, type WalletAnswer, type WalletReply } from '../wallet/answer';
import { fieldAt, type PlayerKind, successRuleOf, type WalletProfile } from '../wallet/profile';
import { readAmount } from '../wallet/template';
import { describeAnswer, describeExpectation, describeReply, isExpected, percentile } from './judge';
import { type Call, call, callsOf, type Scenario, type Step } from './scenario';
import type { WalletTransport } from './transport';
import { type ScenarioFacts, testPlayerOf, writeCall } from './written-call';

export interface CheckProblem {
  /** Null where the problem is not of one call. */
  readonly sent: string | null;
  readonly came: string;
  readonly expected: string;
}

/** The scenario cannot go on. The message says why. */
export class CannotPlay extends Error {}

export interface PlayDeps {
  readonly profile: WalletProfile;
  readonly transport: WalletTransport;
  readonly sleep: (ms: number) => Promise<void>;
  /** All ids of the scenario begin with this word. */
  readonly prefix: string;
  /** Counts an attempt before it is sent. @throws CannotPlay where none is left */
  readonly countAttempt: () => void;
  /** @throws CannotPlay after an interruption */
  readonly checkStop: () => void;
}

interface Exchanged {
  readonly call: Call;
  /** As the report shows it. */
  readonly sent: string;
  readonly reply: WalletReply;
  readonly answer: WalletAnswer;
}

/** The attempts of a call that the wallet asks to send again, and the first wait before it comes again. */
const ATTEMPTS = 4;
const FIRST_WAIT_MS = 100;

/**
 * @param problems gets every problem, also where the scenario cannot go on
 * @throws CannotPlay
 */
export async function playScenario(
  scenario: Scenario,
  deps: PlayDeps,
  problems: CheckProblem[],
): Promise<void> {
  const { profile } = deps;
  const balances = new Map<PlayerKind, bigint>();
  const facts: ScenarioFacts = { profile, balances, idOf: (word) => `${deps.prefix}-${scenario.id}-${word}` };
  const hide = (text: string) => withoutTokens(profile, text);
  const shown = (reply: WalletReply) => describeReply(reply, hide);
  const add = (sent: string | null, came: string, expected: string): void => {
    problems.push({ sent, came: hide(came), expected: hide(expected) });
  };
  const exchanges: Exchanged[] = [];
  let reads = 0;

  // --- calls, from the one that is judged down to one attempt

  async function sendAndJudge(one: Call): Promise<Exchanged> {
    const exchanged = await sendUntilFinal(one);
    exchanges.push(exchanged);
    const { answer, reply, sent } = exchanged;
    if (!isExpected(one.expect, answer))
      add(sent, `${describeAnswer(answer)}; ${shown(reply)}`, describeExpectation(one.expect));
    return exchanged;
  }

  /** Sends a call again where the wallet asks for a retry, as the service does. */
  async function sendUntilFinal(one: Call): Promise<Exchanged> {
    for (let attempt = 1; ; attempt++) {
      const exchanged = await sendOnce(one);
      if (exchanged.answer.type !== 'retry' || attempt === ATTEMPTS) return exchanged;
      await deps.sleep(FIRST_WAIT_MS * 2 ** (attempt - 1));
    }
  }

  async function sendOnce(one: Call): Promise<Exchanged> {
    const written = writeCall(one, facts);
    if ('problem' in written) throw new CannotPlay(written.problem);
    deps.countAttempt();
    const { wrongSignature, unknownFields, newConnection, cut } = one;
    const reply = await deps.transport.call({
      ...written,
      wrongSignature,
      unknownFields,
      newConnection,
      cut,
    });
    deps.checkStop();
    // As the service does. A call that comes at once may overtake the one that lost its connection.
    if (cut !== undefined) await deps.sleep(FIRST_WAIT_MS);
    const { path, payload, rawBody } = written;
    const sent = `POST ${path} ${rawBody ?? hide(`{"payload":${payload}}`)}${cut === undefined ? '' : ` (connection cut: ${cut.replace('_', ' ')})`}`;
    return { call: one, sent, reply, answer: interpretReply(one.action, reply, successRuleOf(profile)) };
  }

  async function readBalance(kind: PlayerKind): Promise<bigint | undefined> {
    const { sent, reply, answer } = await sendAndJudge(
      call('balance', `balance-${++reads}`, { type: 'ok' }, { player: kind }),
    );
    if (answer.type !== 'ok') return undefined;
    const { answers, amounts } = profile;
    const balance = readAmount(
      fieldAt(answer.body, answers.balance),
      amounts,
      testPlayerOf(kind, facts).exponent,
    );
    if (balance === undefined)
      add(
        sent,
        shown(reply),
        `an amount in ${amounts} units at ${answers.balance} (answers.balance, amounts)`,
      );
    return balance;
  }

  // --- steps

  async function sendTogether(calls: readonly Call[], accepted: number | undefined): Promise<void> {
    const exchanged = await Promise.all(calls.map(sendAndJudge));
    if (accepted === undefined) return;
    const count = exchanged.filter(({ answer }) => answer.type === 'ok').length;
    if (count !== accepted)
      add(`${calls.length} calls together`, `${count} successes`, `${accepted} successes`);
  }

  async function measure(calls: readonly Call[]): Promise<void> {
    const times: number[] = [];
    for (const one of calls) {
      const { reply } = await sendAndJudge(one);
      if (reply.type === 'http') times.push(reply.ms);
      // Later answers cannot change that half of them are too late.
      if (times.filter((ms) => ms > LIMITS.wallet_answer_goal.value).length > calls.length / 2) break;
    }
    for (const [share, limit, words] of [
      [0.5, LIMITS.wallet_answer_goal, 'half of the answers'],
      [0.99, LIMITS.wallet_answer, '99 of 100 answers'],
    ] as const) {
      const ms = percentile(times, share);
      if (ms <= limit.value) continue;
      add(
        `${calls.length} calls in turn`,
        `${words} within ${Math.round(ms)} ms`,
        `within ${limit.value} ms`,
      );
    }
  }

  function compareAnswers(op: string): void {
    const read = exchanges.filter((each) => each.call.op === op && each.answer.type !== 'no_answer');
    const contents = read.map(({ answer }) =>
      answer.type === 'ok' ? withoutFields(answer.body, profile.answers.changing) : answer,
    );
    const other = read.find((_, i) => !isDeepStrictEqual(contents[i], contents[0]));
    const [first] = read;
    if (first === undefined || other === undefined) return;
    const expected = `the same answer each time; the first was ${shown(first.reply)}. List fields that may differ under answers.changing`;
    add(other.sent, shown(other.reply), expected);
  }

  async function compareBalance(kind: PlayerKind, changes: readonly bigint[]): Promise<void> {
    const [before, after] = [balances.get(kind), await readBalance(kind)];
    if (before === undefined || after === undefined || changes.includes(after - before)) return;
    const expected = changes.map((change) => signed(change)).join(' or ');
    add(
      null,
      `the balance of the player "${kind}" changed by ${signed(after - before)}, from ${before} to ${after} minor units`,
      `a change by ${expected}`,
    );
  }

  async function take(step: Step): Promise<void> {
    switch (step.type) {
      case 'call':
        await sendAndJudge(step.call);
        return;
      case 'together':
        return sendTogether(step.calls, step.accepted);
      case 'latency':
        return measure(step.calls);
      case 'one_answer':
        return compareAnswers(step.op);
      case 'balance':
        return compareBalance(step.player ?? 'usual', [step.change]);
      case 'balance_among':
        return compareBalance(step.player ?? 'usual', step.changes);
    }
  }

  for (const kind of playersWithBalance(scenario)) {
    const balance = await readBalance(kind);
    if (balance === undefined) return;
    balances.set(kind, balance);
  }
  for (const step of scenario.steps) await take(step);
}

/** The players whose balance the scenario compares, or bets as a whole. */
function playersWithBalance(scenario: Scenario): Set<PlayerKind> {
  const staked = callsOf(scenario).filter(({ amount }) => amount === 'all' || amount === 'more_than_all');
  const compared = scenario.steps.filter(({ type }) => type === 'balance' || type === 'balance_among');
  return new Set(
    [...staked, ...compared].map((each) => ('player' in each ? each.player : undefined) ?? 'usual'),
  );
}

/** Tokens open sessions, so no report holds them. Some writers of JSON put a backslash before a slash. */
function withoutTokens({ players }: WalletProfile, text: string): string {
  return [...players.values()].reduce(
    (rest, { token }) => rest.replaceAll(JSON.stringify(token).slice(1, -1), '(token)'),
    text.replaceAll('\\/', '/'),
  );
}

function signed(change: bigint): string {
  return change > 0n ? `+${change}` : String(change);
}

/** A copy without the fields at the paths. */
export function withoutFields(value: unknown, paths: readonly string[]): unknown {
  return paths.reduce((rest, path) => withoutField(rest, path.split('.')), value);
}

function withoutField(value: unknown, [first = '', ...rest]: readonly string[]): unknown {
  if (!isObject(value) || !Object.hasOwn(value, first)) return value;
  const { [first]: inner, ...others } = value;
  return rest.length === 0 ? others : { ...others, [first]: withoutField(inner, rest) };
}
