/** Runs scenarios against a wallet, one after the other, within limits of count and time. */
import type { Clock } from '../lib/clock';
import type { WalletProfile } from '../wallet/profile';
import { CannotPlay, type CheckProblem, playScenario } from './play';
import type { Scenario } from './scenario';
import { missingFor } from './scenario';
import type { WalletTransport } from './transport';

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
  const { profile, transport, clock, run, stop } = deps;
  const [startedAt, before] = [clock.now(), budget.used];
  const problems: CheckProblem[] = [];
  let reason = missingFor(scenario, profile) ?? budget.exceeded() ?? null;
  if (reason === null)
    try {
      await playScenario(
        scenario,
        {
          profile,
          transport,
          prefix: run,
          sleep: (ms) => clock.sleep(ms, stop),
          countAttempt: () => budget.take(),
          checkStop: () => budget.checkStop(),
        },
        problems,
      );
    } catch (error) {
      if (!(error instanceof CannotPlay)) throw error;
      reason = error.message;
    }
  const status = problems.length > 0 ? 'failed' : reason === null ? 'passed' : 'not_run';
  const seconds = (clock.now() - startedAt) / 1_000;
  return { scenario, status, reason, problems, requests: budget.used - before, seconds };
}

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
    if (reason !== undefined) throw new CannotPlay(reason);
    this.used++;
  }

  checkStop(): void {
    if (this.deps.stop.aborted) throw new CannotPlay('the check was interrupted');
  }
}
