/** Plays rounds against wallets: begins the calls that `round.ts` plans, until each round has its end. */
import type { Logger } from 'pino';
import { backoffMs } from '../lib/backoff';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import type { WalletAnswer } from '../wallet/answer';
import type { CallLookup } from '../wallet/call-store';
import { WalletBusy, type WalletCalls } from '../wallet/calls';
import {
  eventsOfRound,
  nextOfRound,
  type PlannedCall,
  possibleOpIds,
  type RoundCalls,
  type RoundPlan,
  type RoundState,
} from './round';
import { ROUND_LEASE_MS, type RoundStore, type SandboxRound } from './round-store';

const ROUNDS_AT_ONCE = 16;
const POLL_MS = 300;

/** Writes minor units as a wallet wants them. */
export type WriteWalletAmount = (minor: bigint, exponent: number) => string;

export interface Rounds {
  /** The calls of the wallet that the round has. @throws StoreError */
  callsOf(round: SandboxRound): Promise<RoundCalls>;
  /**
   * Drives a round until its end, or for this time.
   *
   * @returns its state
   * @throws StoreError, or InvalidCall where the profile of the wallet does not fit
   */
  drive(round: SandboxRound, withinMs: number, stop: AbortSignal): Promise<RoundState>;
  /** Drives all rounds that no process drives, until `stop`. */
  run(stop: AbortSignal): Promise<void>;
}

export interface RoundsDeps {
  readonly store: RoundStore;
  readonly calls: Pick<WalletCalls, 'start'>;
  readonly callStore: CallLookup;
  /** By operator. */
  readonly writeAmounts: ReadonlyMap<string, WriteWalletAmount>;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function makeRounds(deps: RoundsDeps): Rounds {
  const { store, calls, callStore, writeAmounts, clock, logger } = deps;

  async function callsOf({ operatorId, plan }: SandboxRound): Promise<RoundCalls> {
    const found = await callStore.findAll(operatorId, possibleOpIds(plan));
    return new Map(
      found.map(({ opId, action, state, answer }) => [opId, { action, state, cause: causeOf(answer) }]),
    );
  }

  /** Takes steps until a call is open. @returns the state */
  async function advance(round: SandboxRound): Promise<RoundState> {
    const { operatorId, plan } = round;
    for (;;) {
      const known = await callsOf(round);
      const step = nextOfRound(plan, known);
      const state = step.type === 'end' ? step.state : 'playing';
      await store.keepRound(round, eventsOfRound(plan, known, state), state);
      if (step.type === 'end') {
        logger.info({ operator: operatorId, round: plan.roundId, state }, 'sandbox round ended');
        return state;
      }
      if (step.type === 'wait') return state;
      if (!(await begin(operatorId, plan, step.call))) return state;
    }
  }

  /** @returns false where the wallet has no free place now. @throws InvalidCall, StoreError */
  async function begin(operatorId: string, plan: RoundPlan, call: PlannedCall): Promise<boolean> {
    const write = writeAmounts.get(operatorId);
    if (write === undefined)
      throw new Error(`the sandbox has no wallet of ${operatorId}: add it to its file`);
    try {
      await calls.start({
        operatorId,
        action: call.action,
        opId: call.opId,
        values: valuesOf(plan, call, write),
      });
      return true;
    } catch (error) {
      if (error instanceof WalletBusy) return false;
      throw error;
    }
  }

  async function drive(round: SandboxRound, withinMs: number, stop: AbortSignal): Promise<RoundState> {
    const end = clock.now() + withinMs;
    for (;;) {
      const state = await advance(round);
      if (state !== 'playing' || stop.aborted || clock.now() + POLL_MS > end) return state;
      await store.returnRound(round, ROUND_LEASE_MS);
      await clock.sleep(POLL_MS, stop);
    }
  }

  async function driveTaken(round: SandboxRound): Promise<void> {
    try {
      if ((await advance(round)) === 'playing') await store.returnRound(round, POLL_MS);
    } catch (error) {
      logger.warn(
        { operator: round.operatorId, round: round.plan.roundId, error: messageOf(error) },
        'cannot play a round, retrying',
      );
    }
  }

  async function run(stop: AbortSignal): Promise<void> {
    for (let failures = 0; !stop.aborted; ) {
      let waitMs = POLL_MS;
      try {
        await Promise.all((await store.takeRounds(ROUNDS_AT_ONCE)).map(driveTaken));
        failures = 0;
      } catch (error) {
        failures++;
        waitMs = backoffMs(failures);
        logger.warn({ failures, waitMs, error: messageOf(error) }, 'cannot take rounds, retrying');
      }
      await clock.sleep(waitMs, stop);
    }
  }

  return { callsOf, drive, run };
}

function valuesOf(
  plan: RoundPlan,
  { amount, win, original }: PlannedCall,
  write: WriteWalletAmount,
): Record<string, string> {
  const { player, token, currency, scale, roundId, game } = plan;
  return {
    player,
    token,
    currency,
    exponent: String(scale),
    round: roundId,
    game,
    ...(amount !== null && { amount: write(BigInt(amount), scale) }),
    ...(win !== null && { win: write(BigInt(win), scale) }),
    ...(original !== null && { original }),
  };
}

/** The code of the last answer, or why there was none. */
function causeOf(answer: WalletAnswer | null): string | null {
  if (answer === null || answer.type === 'ok') return null;
  return answer.code ?? (answer.type === 'no_answer' ? answer.cause : null);
}
