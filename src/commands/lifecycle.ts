/**
 * The life of a service: a command that serves until a signal, or one of its parts, stops it. Worker and
 * webhook share it.
 *
 *     starting -> serving -> stopping -> stopped
 *         \________________/
 *
 * - starting: the parts start in order, each after the part before it. A failed start, or a signal, leads to
 *   stopping.
 * - serving: all parts are started. The service is ready if every part is.
 * - stopping: the parts refuse new work, and then stop in reverse order, each within its deadline.
 * - stopped: nothing runs. A part that was late is cut by the end of the process.
 *
 * A second signal ends the process at once, in every state.
 */
import type { Logger } from 'pino';
import { FAILED } from '../cli/exit-codes';
import { explainShortly } from '../cli/explain-error';
import { type Clock, inTime, LATE } from '../lib/clock';
import { messageOf } from '../lib/errors';
import type { Health } from '../telemetry/health-server';

/** A part of a service. `T` is the running part, which its start returns. */
export interface Part<T> {
  readonly name: string;
  /** Starts the part. A failed start has to clean up after itself: `stop` is not called then. */
  start(): T | Promise<T>;
  /** Refuses new work. Called for each part before any part stops, and before the deadlines begin. */
  quiesce?(running: T): Promise<unknown>;
  /**
   * Stops the part. Work that is not finished within `withinMs` is cut.
   *
   * @returns false if the part has cut work itself
   */
  stop?(running: T, withinMs: number): Promise<unknown>;
  /** False if only a restart helps. */
  isLive?(running: T): boolean;
  /** False if the part cannot do its work now. */
  isReady?(running: T): boolean;
  /** Problems that somebody has to act on although the service is ready. */
  notes?(running: T): readonly string[];
  /** Resolves with a reason once the part ends the service by itself. Must resolve once `stop` is aborted. */
  ended?(running: T, stop: AbortSignal): Promise<string>;
}

/** The handle by which a service starts its parts. */
export interface Starting {
  /** Aborted as soon as the service has to stop. */
  readonly stop: AbortSignal;
  /** Starts a part. @throws the error of its start, or StoppedEarly if a signal came meanwhile */
  start<T>(part: Part<T>): Promise<T>;
}

export interface Service {
  /** "worker", "webhook". */
  readonly name: string;
  /** Starts the parts in order. */
  readonly start: (starting: Starting) => Promise<void>;
  /** The time in which all parts together have to stop. */
  readonly stopWithinMs: number;
  /** The exit code of a service that stopped for this reason. */
  readonly codeOf: (reason: string) => number;
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
/** The reason of a stop by a part that cannot go on. */
export const FAILURE = 'failed';

/**
 * Each part that stops later has this much of the time reserved. So a part that hangs does not keep the parts
 * behind it from closing their connections.
 */
const RESERVED_A_PART_MS = 100;
/** The most time that is reserved, and the time that stopping takes after a failed start. */
const CLOSE_WITHIN_MS = 500;

/** The service had to stop before all parts were started. */
class StoppedEarly extends Error {
  override readonly name = 'StoppedEarly';
}

/** A started part, with its running value bound. */
type Started = ReturnType<typeof bind>;

function bind<T>(part: Part<T>, running: T) {
  return {
    name: part.name,
    quiesce: () => part.quiesce?.(running),
    stop: part.stop && ((withinMs: number) => part.stop?.(running, withinMs)),
    isLive: () => part.isLive?.(running) ?? true,
    isReady: () => part.isReady?.(running) ?? true,
    notes: () => part.notes?.(running) ?? [],
    ended: part.ended && ((stop: AbortSignal) => part.ended?.(running, stop)),
  };
}

/**
 * Runs a service from its start to its end.
 *
 * @throws where its health cannot be served
 */
export async function runService(service: Service, surroundings: Surroundings): Promise<Ended> {
  const { name, stopWithinMs, codeOf, details } = service;
  const { clock, logger } = surroundings;
  const stopping = new AbortController();
  const parts: Started[] = [];
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
    live: () => parts.every((part) => part.isLive()),
    ready: () => state === 'serving' && !stopping.signal.aborted && parts.every((part) => part.isReady()),
    notes: () => parts.flatMap((part) => part.notes()),
  });
  parts.push(bind({ name: 'health', start: () => health, stop: () => health.close() }, health));

  /** @returns the names of the parts that were late, or cut work */
  async function stopParts(withinMs: number): Promise<string[]> {
    state = 'stopping';
    const stopBy = clock.now() + withinMs;
    const late: string[] = [];
    while (parts.length > 0) {
      const part = parts.pop();
      if (part?.stop === undefined) continue;
      const behind = parts.filter(({ stop }) => stop !== undefined).length;
      const reserved = Math.min(CLOSE_WITHIN_MS, behind * RESERVED_A_PART_MS);
      const partMs = Math.max(RESERVED_A_PART_MS, stopBy - clock.now() - reserved);
      if (!(await stopPart(part, partMs))) late.push(part.name);
    }
    state = 'stopped';
    if (late.length > 0)
      logger.warn({ parts: late, withinMs }, 'connections did not close in time, dropping them');
    return late;
  }

  /** @returns whether the part has stopped in time. A part whose stop fails has nothing left to wait for. */
  async function stopPart({ name: part, stop }: Started, withinMs: number): Promise<boolean> {
    try {
      const result = await inTime(clock, Promise.resolve(stop?.(withinMs)), withinMs);
      return result !== LATE && result !== false;
    } catch (error) {
      logger.warn({ part, error: messageOf(error) }, 'part failed to stop');
      return true;
    }
  }

  async function quiesceParts(): Promise<void> {
    for (const { name: part, quiesce } of parts.toReversed()) {
      try {
        await quiesce();
      } catch (error) {
        logger.warn({ part, error: messageOf(error) }, 'part failed to refuse new work');
      }
    }
  }

  /** Waits for the end of the service. @returns its reason */
  async function untilEnd(): Promise<string> {
    try {
      return await Promise.race([
        aborted(stopping.signal).then(() => BY_SIGNAL),
        ...parts.flatMap(({ ended }) => ended?.(stopping.signal) ?? []),
      ]);
    } catch (error) {
      logger.fatal({ error: explainShortly(error) }, `the ${name} cannot go on`);
      return FAILURE;
    }
  }

  try {
    await service.start({
      stop: stopping.signal,
      async start(part) {
        if (stopping.signal.aborted) throw new StoppedEarly();
        const running = await part.start();
        parts.push(bind(part, running));
        return running;
      },
    });
    if (stopping.signal.aborted) throw new StoppedEarly();
  } catch (error) {
    const isStopped = stopping.signal.aborted;
    if (isStopped) logger.info('stopped before the start was complete');
    else logger.fatal({ error: explainShortly(error) }, `the ${name} cannot start`);
    stopping.abort();
    await stopParts(CLOSE_WITHIN_MS);
    // A pending attempt to connect would keep the process alive.
    return { code: isStopped ? codeOf(BY_SIGNAL) : FAILED, isClean: false };
  }

  state = 'serving';
  const reason = await untilEnd();
  state = 'stopping';
  logger.info({ reason, ...details }, 'stopping');
  await quiesceParts();
  const late = await stopParts(stopWithinMs);
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
