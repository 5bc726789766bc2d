/** The settings of the limit on rejected events. */
import { group } from './reading';
import { integer, setting } from './setting';

export interface RejectLimitSettings {
  readonly percent: number;
  readonly windowEvents: number;
  readonly minEvents: number;
}

const MAX_EVENTS = 1_000_000;

const SETTINGS = {
  REJECT_LIMIT_PERCENT: setting({
    describe:
      'Percentage of rejected events above which a topic is paused, until newer reference data is in force or the worker restarts. Absent: no topic is ever paused.',
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
    describe: 'Fewer events than this never pause a topic.',
    fallback: '100',
    example: '100',
    parse: integer(1, MAX_EVENTS),
  }),
} as const;

/** The limit; null where there is none. */
export const rejectLimit = group(SETTINGS, (reading): RejectLimitSettings | null | undefined => {
  const percent = reading.value('REJECT_LIMIT_PERCENT');
  if (!reading.isGiven('REJECT_LIMIT_PERCENT')) {
    const further = ['REJECT_WINDOW_EVENTS', 'REJECT_MIN_EVENTS'] as const;
    reading.refuse(further, 'without REJECT_LIMIT_PERCENT', 'set REJECT_LIMIT_PERCENT');
    return null;
  }
  const windowEvents = reading.value('REJECT_WINDOW_EVENTS');
  const minEvents = reading.value('REJECT_MIN_EVENTS');
  if (percent === undefined || windowEvents === undefined || minEvents === undefined) return undefined;
  if (minEvents > windowEvents)
    reading.fault(
      'REJECT_MIN_EVENTS',
      'is more than REJECT_WINDOW_EVENTS',
      'Set it to at most REJECT_WINDOW_EVENTS',
    );
  return { percent, windowEvents, minEvents };
});
