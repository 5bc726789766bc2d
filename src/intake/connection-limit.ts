/**
 * The limit on rejected events of a webhook connection: a bad export is stopped before it uses up hundreds of
 * event_ids (docs/rules.md, W11). Each webhook counts for itself, in memory.
 */
import type { Logger } from 'pino';
import { isSameVersion } from '../domain/reference';
import { counted } from '../lib/printable';
import {
  isWithin,
  type Pause,
  type RejectLimit,
  reasonsOf,
  slide,
  sumOf,
  type Tally,
  TopicPaused,
  tallyOf,
} from './reject-limit';

export interface ConnectionThreshold {
  /** A connection is paused above this percentage of rejected events. */
  readonly percent: number;
  /** The number of a connection's last events that count. Fewer events count as so many. */
  readonly minEvents: number;
  readonly pauseSeconds: number;
}

interface ConnectionPause extends Pause {
  /** Milliseconds since 1970. */
  readonly until: number;
}

/** None of the connection's requests is decided for now. */
export class ConnectionPaused extends TopicPaused {
  /** @param until when the connection continues by itself, in milliseconds since 1970 */
  constructor(
    message: string,
    readonly until: number,
  ) {
    super(message);
  }
}

const NOTHING: Tally = { events: 0, rejected: 0 };

/** @param now milliseconds since 1970 */
export function makeConnectionLimit(
  threshold: ConnectionThreshold,
  logger: Logger,
  now: () => number,
): RejectLimit {
  const windows = new Map<string, readonly Tally[]>();
  const pauses = new Map<string, ConnectionPause>();
  /** The sums of batches that are checked, and neither committed nor abandoned. A connection has several. */
  const inFlight = new Map<string, Tally>();
  const isOver = ({ until }: ConnectionPause) => now() >= until;

  function addInFlight(connection: string, { events, rejected }: Tally, by: 1 | -1): void {
    const before = inFlight.get(connection) ?? NOTHING;
    const after = { events: before.events + by * events, rejected: before.rejected + by * rejected };
    if (after.events > 0) inFlight.set(connection, after);
    else inFlight.delete(connection);
  }

  return {
    isPaused(connection) {
      const pause = pauses.get(connection);
      return pause !== undefined && !isOver(pause);
    },
    admit(connection, reference) {
      const pause = pauses.get(connection);
      if (pause === undefined) return;
      if (!isOver(pause) && isSameVersion(pause.judgedBy, reference))
        throw new ConnectionPaused(describe(pause, threshold), pause.until);
      pauses.delete(connection);
      windows.delete(connection);
      logger.info(
        { connection, referenceVersion: reference.version },
        'connection is no longer paused: its events are decided again',
      );
    },
    check(connection, reference, decisions) {
      // Tests may be rejected: their ids are used up for tests alone.
      if (reference.connections?.get(connection)?.isTest === true) return () => undefined;
      const tally = tallyOf(decisions);
      const uncounted = sumOf([inFlight.get(connection) ?? NOTHING, tally]);
      const window = sumOf(slide(windows.get(connection) ?? [], uncounted, threshold.minEvents));
      // Fewer events count as `minEvents`: the first bad ones of a process stop as early as later ones.
      const atLeast = { ...window, events: Math.max(window.events, threshold.minEvents) };
      if (isWithin(atLeast, threshold) || isWithin(tally, threshold)) {
        addInFlight(connection, tally, 1);
        return (isCommitted) => {
          addInFlight(connection, tally, -1);
          if (isCommitted)
            windows.set(connection, slide(windows.get(connection) ?? [], tally, threshold.minEvents));
        };
      }
      const until = now() + threshold.pauseSeconds * 1000;
      const pause = { ...window, reasons: reasonsOf(decisions), judgedBy: reference, until };
      pauses.set(connection, pause);
      logger.error(
        {
          connection,
          ...threshold,
          ...window,
          reasons: pause.reasons,
          until: new Date(until).toISOString(),
          referenceVersion: reference.version,
        },
        'connection is paused: too many of its events would be rejected',
      );
      throw new ConnectionPaused(describe(pause, threshold), until);
    },
  };
}

/** For the sender: the limit, the reasons and the time. */
function describe(
  { events, rejected, reasons, until }: ConnectionPause,
  { percent }: ConnectionThreshold,
): string {
  const most = Object.entries(reasons)
    .sort(([, a], [, b]) => b - a)
    .map(([reason, count]) => `${count} ${reason}`)
    .join(', ');
  return `${rejected} of the last ${counted(events, 'event')} would be rejected, more than the limit of ${percent} % (in the last batch: ${most}). No event is decided until ${new Date(until).toISOString()}`;
}
