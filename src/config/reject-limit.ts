/** The settings of the limit on rejected events. */
import { group } from './reading';
import { integer, setting } from './setting';

export interface RejectLimitSettings {
  readonly percent: number;
  readonly windowEvents: number;
  readonly minEvents: number;
  readonly pauseSeconds: number;
}

const MAX_EVENTS = 1_000_000;

const SETTINGS = {
  REJECT_LIMIT_PERCENT: setting({
    describe:
      'Percentage of rejected events above which a topic is paused, until newer reference data is in force or the worker restarts. The webhook pauses a connection for REJECT_PAUSE_SECONDS. Absent: nothing is ever paused.',
    example: '50',
    parse: integer(1, 99),
  }),
  REJECT_WINDOW_EVENTS: setting({
    describe:
      "How many of a topic's last events count for REJECT_LIMIT_PERCENT; whole batches, so it may be more.",
    fallback: '1000',
    example: '1000',
    parse: integer(1, MAX_EVENTS),
  }),
  REJECT_MIN_EVENTS: setting({
    describe:
      'Fewer events than this never pause a topic. The webhook counts the last so many events of a connection, and pauses it before more than REJECT_LIMIT_PERCENT of this number are rejected.',
    fallback: '100',
    example: '100',
    parse: integer(1, MAX_EVENTS),
  }),
  REJECT_PAUSE_SECONDS: setting({
    describe:
      'Seconds for which the webhook pauses a connection, unless newer reference data comes into force before. A topic is paused without an end.',
    fallback: '600',
    example: '600',
    parse: integer(1, 86_400),
  }),
} as const;

/** The limit; null where there is none. */
export const rejectLimit = group(SETTINGS, (reading): RejectLimitSettings | null | undefined => {
  const percent = reading.value('REJECT_LIMIT_PERCENT');
  if (!reading.isGiven('REJECT_LIMIT_PERCENT')) {
    const further = ['REJECT_WINDOW_EVENTS', 'REJECT_MIN_EVENTS', 'REJECT_PAUSE_SECONDS'] as const;
    reading.refuse(further, 'without REJECT_LIMIT_PERCENT', 'set REJECT_LIMIT_PERCENT');
    return null;
  }
  const windowEvents = reading.value('REJECT_WINDOW_EVENTS');
  const minEvents = reading.value('REJECT_MIN_EVENTS');
  const pauseSeconds = reading.value('REJECT_PAUSE_SECONDS');
  if (percent === undefined || windowEvents === undefined || minEvents === undefined) return undefined;
  if (pauseSeconds === undefined) return undefined;
  if (minEvents > windowEvents)
    reading.fault(
      'REJECT_MIN_EVENTS',
      'is more than REJECT_WINDOW_EVENTS',
      'Set it to at most REJECT_WINDOW_EVENTS',
    );
  return { percent, windowEvents, minEvents, pauseSeconds };
});
