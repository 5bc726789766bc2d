/**
 * The life of a service: a command that serves until a signal, or one of its components, stops it. All
 * services share it, from worker and webhook to the console and the sandbox.
 *
 *     starting -> serving -> stopping -> stopped
 *         \________________/
 *
 * - starting: the components start in order, each after the one before it. A failed start, or a signal, leads
 *   to stopping.
 * - serving: all components are started. The service is ready if every component is.
 * - stopping: the components refuse new work, and then stop in reverse order, each within its deadline.
 * - stopped: nothing runs. A component that was late is cut by the end of the process.
 *
 * A second signal ends the process at once, in every state.
 */
import type { Logger } from 'pino';
import { DONE, FAILED } from '../../cli/exit-codes';
import { explainShortly } from '../../cli/explain-error';
import { type Clock, inTime, LATE } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import type { Health } from '../../telemetry/health-server';

/** A component of a service. `T` is the running component, which its start returns. */
export interface Component<T> {
  readonly name: string;
  /** Starts the component. A failed start has to clean up after itself: `stop` is not called then. */
  start(): T | Promise<T>;
  /** Refuses new work. Called for each component before any stops, and before the deadlines begin. */
  quiesce?(running: T): Promise<unknown>;
  /**
   * Stops the component. Work that is not finished within `withinMs` is cut.
   *
   * @returns false if the component has cut work itself
   */
  stop?(running: T, withinMs: number): Promise<unknown>;
  /** False if only a restart helps. */
  isLive?(running: T): boolean;
  /** False if the component cannot do its work now. */
  isReady?(running: T): boolean;
  /** Problems that somebody has to act on although the service is ready. */
  notes?(running: T): readonly string[];
  /** Resolves with a reason once the component ends the service. Must resolve once `stop` is aborted. */
  ended?(running: T, stop: AbortSignal): Promise<string>;
}

/** The handle by which a service starts its components. */
export interface Starting {
  /** Aborted as soon as the service has to stop. */
  readonly stop: AbortSignal;
  /** Starts a component. @throws the error of its start, or StoppedEarly if a signal came meanwhile */
  start<T>(component: Component<T>): Promise<T>;
}

export interface Service {
  /** "worker", "webhook". */
  readonly name: string;
  /** Starts the components in order. */
  readonly start: (starting: Starting) => Promise<void>;
  /** The time in which all components together have to stop. */
  readonly stopWithinMs: number;
  /** The exit code of a service that stopped for this reason. Absent: a signal is the only good reason. */
  readonly codeOf?: (reason: string) => number;
  /** Further fields of the log line that says why the service stops. */
  readonly details?: object;
}

/** The process around a service. */
export interface Surroundings {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Calls the listener at each signal that stops a process. */
  onSignal(listener: (signal: string) => void): void;
  /** Ends the process at once. */
  exitNow(code: number): void;
  /** Serves the health of the service for all of its life. */
  openHealth(health: Health): Promise<{ close(): Promise<unknown> }>;
}

export interface Ended {
  readonly code: number;
  /** False if anything may still run, and keep the process alive: the caller then has to end the process. */
  readonly isClean: boolean;
}

/** The reason of a stop by a signal. */
export const BY_SIGNAL = 'stop requested';
/** The reason of a stop by a component that cannot go on. */
export const FAILURE = 'failed';

/**
 * Each component that stops later has this much of the time reserved. So a component that hangs does not keep
 * those behind it from closing their connections.
 */
const RESERVED_FOR_EACH_MS = 100;
/** The most time that is reserved, and the time that stopping takes after a failed start. */
const CLOSE_WITHIN_MS = 500;

const codeOfSignal = (reason: string): number => (reason === BY_SIGNAL ? DONE : FAILED);

/** The service had to stop before all components were started. */
class StoppedEarly extends Error {
  override readonly name = 'StoppedEarly';
}

/** A started component, with its running value bound. */
type Started = ReturnType<typeof bind>;

function bind<T>(component: Component<T>, running: T) {
  return {
    name: component.name,
    quiesce: () => component.quiesce?.(running),
    stop: component.stop && ((withinMs: number) => component.stop?.(running, withinMs)),
    isLive: () => component.isLive?.(running) ?? true,
    isReady: () => component.isReady?.(running) ?? true,
    notes: () => component.notes?.(running) ?? [],
    ended: component.ended && ((stop: AbortSignal) => component.ended?.(running, stop)),
  };
}

/**
 * Runs a service from its start to its end.
 *
 * @throws where its health cannot be served
 */
export async function runService(service: Service, surroundings: Surroundings): Promise<Ended> {
  const { name, stopWithinMs, codeOf = codeOfSignal, details } = service;
  const { clock, logger } = surroundings;
  const stopping = new AbortController();
  const components: Started[] = [];
  let state: 'starting' | 'serving' | 'stopping' | 'stopped' = 'starting';

  surroundings.onSignal((signal) => {
    if (stopping.signal.aborted) {
      surroundings.exitNow(FAILED);
      return;
    }
    logger.info({ signal }, 'signal received');
    stopping.abort();
  });
  const health = await surroundings.openHealth({
    live: () => components.every((component) => component.isLive()),
    ready: () =>
      state === 'serving' && !stopping.signal.aborted && components.every((component) => component.isReady()),
    notes: () => components.flatMap((component) => component.notes()),
  });
  components.push(bind({ name: 'health', start: () => health, stop: () => health.close() }, health));

  /** @returns the names of the components that were late, or cut work */
  async function stopComponents(withinMs: number): Promise<string[]> {
    state = 'stopping';
    const stopBy = clock.now() + withinMs;
    const late: string[] = [];
    while (components.length > 0) {
      const component = components.pop();
      if (component?.stop === undefined) continue;
      const behind = components.filter(({ stop }) => stop !== undefined).length;
      const reserved = Math.min(CLOSE_WITHIN_MS, behind * RESERVED_FOR_EACH_MS);
      const componentMs = Math.max(RESERVED_FOR_EACH_MS, stopBy - clock.now() - reserved);
      if (!(await stopComponent(component, componentMs))) late.push(component.name);
    }
    state = 'stopped';
    if (late.length > 0)
      logger.warn({ components: late, withinMs }, 'connections did not close in time, dropping them');
    return late;
  }

  /** @returns whether the component stopped in time. Where its stop fails, nothing is left to wait for. */
  async function stopComponent({ name: component, stop }: Started, withinMs: number): Promise<boolean> {
    try {
      const result = await inTime(clock, Promise.resolve(stop?.(withinMs)), withinMs);
      return result !== LATE && result !== false;
    } catch (error) {
      logger.warn({ component, error: messageOf(error) }, 'component failed to stop');
      return true;
    }
  }

  async function quiesceComponents(): Promise<void> {
    for (const { name: component, quiesce } of components.toReversed()) {
      try {
        await quiesce();
      } catch (error) {
        logger.warn({ component, error: messageOf(error) }, 'component failed to refuse new work');
      }
    }
  }

  /** Waits for the end of the service. @returns its reason */
  async function untilEnd(): Promise<string> {
    try {
      return await Promise.race([
        aborted(stopping.signal).then(() => BY_SIGNAL),
        ...components.flatMap(({ ended }) => ended?.(stopping.signal) ?? []),
      ]);
    } catch (error) {
      logger.fatal({ error: explainShortly(error) }, `the ${name} cannot go on`);
      return FAILURE;
    }
  }

  try {
    await service.start({
      stop: stopping.signal,
      async start(component) {
        if (stopping.signal.aborted) throw new StoppedEarly();
        const running = await component.start();
        components.push(bind(component, running));
        return running;
      },
    });
    if (stopping.signal.aborted) throw new StoppedEarly();
  } catch (error) {
    const isStopped = stopping.signal.aborted;
    if (isStopped) logger.info('stopped before the start was complete');
    else logger.fatal({ error: explainShortly(error) }, `the ${name} cannot start`);
    stopping.abort();
    await stopComponents(CLOSE_WITHIN_MS);
    // A pending attempt to connect would keep the process alive.
    return { code: isStopped ? codeOf(BY_SIGNAL) : FAILED, isClean: false };
  }

  state = 'serving';
  const reason = await untilEnd();
  state = 'stopping';
  logger.info({ reason, ...details }, 'stopping');
  await quiesceComponents();
  const late = await stopComponents(stopWithinMs);
  logger.info('stopped');
  const isClean = late.length === 0;
  return { code: isClean ? codeOf(reason) : FAILED, isClean };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
