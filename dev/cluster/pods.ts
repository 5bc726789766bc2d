/** The workers' pods as they change: the fate of each, and how many were ready at the worst moment. */
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import type { Kubernetes } from './kubernetes';

/** A pod at one moment. */
export interface PodState {
  readonly name: string;
  readonly isReady: boolean;
  readonly restarts: number;
  /** Whether Kubernetes is ending it. */
  readonly isEnding: boolean;
  readonly isGone: boolean;
  /** Exit code of its container, once that has ended. */
  readonly exitCode: number | undefined;
  /** Why its container ended before this one began, such as OOMKilled. */
  readonly endedBefore: string;
}

const COLUMNS = [
  ...['.type', '.object.metadata.name', '.object.status.conditions[?(@.type=="Ready")].status'],
  ...['.object.status.containerStatuses[0].restartCount', '.object.metadata.deletionTimestamp'],
  '.object.status.containerStatuses[0].state.terminated.exitCode',
  '.object.status.containerStatuses[0].lastState.terminated.reason',
];
/** kubectl would widen tabs. */
const SEPARATOR = '|';
const FORMAT = `${COLUMNS.map((path) => `{${path}}`).join(SEPARATOR)}{"\\n"}`;

/** The chart's default. */
const WORKERS = 2;

export const SELECTOR = 'app.kubernetes.io/component=worker';

/** @returns undefined for text that is no line of a watch */
export function readState(line: string): PodState | undefined {
  const [event, name, ready, restarts = '', deleted, exitCode = '', endedBefore = ''] = line.split(SEPARATOR);
  if (event === undefined || name === undefined || name === '') return undefined;
  return {
    name,
    isReady: ready === 'True',
    restarts: Number(restarts),
    isEnding: deleted !== '',
    isGone: event === 'DELETED',
    exitCode: exitCode === '' ? undefined : Number(exitCode),
    endedBefore,
  };
}

/** Summary of states in the order in which they arrived. */
export interface History {
  /** Least number of ready pods that were not ending, since all pods of a release were ready. */
  readonly leastReady: number;
  /** Pods that lost readiness although they were neither ending nor restarted. */
  readonly flapped: readonly string[];
  readonly restarts: number;
  /** Exit codes of the pods that Kubernetes ended. */
  readonly exitCodes: ReadonlyMap<string, number>;
}

/** @param workers number of workers of a release */
export function historyOf(states: readonly PodState[], workers: number): History {
  const now = new Map<string, PodState>();
  const exitCodes = new Map<string, number>();
  const flapped = new Set<string>();
  let restarts = 0;
  let leastReady: number | undefined;
  for (const state of states) {
    const before = now.get(state.name);
    const isRestarted = before !== undefined && state.restarts > before.restarts;
    if (isRestarted) restarts += state.restarts - before.restarts;
    if (before?.isReady && !state.isReady && !state.isEnding && !isRestarted && state.exitCode === undefined)
      flapped.add(state.name);
    if (state.exitCode !== undefined && state.isEnding) exitCodes.set(state.name, state.exitCode);
    if (state.isGone) now.delete(state.name);
    else now.set(state.name, state);
    const ready = [...now.values()].filter((each) => each.isReady && !each.isEnding).length;
    if (leastReady !== undefined || ready >= workers) leastReady = Math.min(leastReady ?? ready, ready);
  }
  return { leastReady: leastReady ?? 0, flapped: [...flapped], restarts, exitCodes };
}

/** Watches until `stop`; the first states are those of the existing pods. */
export class PodWatch {
  private readonly child: ChildProcessWithoutNullStreams;
  private text = '';

  constructor(kubernetes: Kubernetes) {
    const args = ['get', 'pods', '--selector', SELECTOR, '--watch', '--output-watch-events'];
    this.child = kubernetes.startKubectl([...args, '--output', `jsonpath=${FORMAT}`]);
    this.child.stdout.setEncoding('utf8').on('data', (part: string) => {
      this.text += part;
    });
  }

  states(): readonly PodState[] {
    return this.text.split('\n').flatMap((line) => readState(line) ?? []);
  }

  stop(): History {
    this.child.kill();
    return historyOf(this.states(), WORKERS);
  }
}
