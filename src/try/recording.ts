/** The intake of a throwaway store: it lists each answer, and stops for a reset. */
import type { Intake } from '../intake/intake';
import type { EventLog } from './event-log';

export interface Recording {
  readonly intake: Pick<Intake, 'decideRequest'>;
  /** Runs `work` while no decision is in flight. Decisions wait for its end. */
  pause(work: () => Promise<void>): Promise<void>;
}

export function recordAnswers(intake: Pick<Intake, 'decideRequest'>, log: Pick<EventLog, 'add'>): Recording {
  const inFlight = new Set<Promise<unknown>>();
  let paused: Promise<void> = Promise.resolve();
  return {
    intake: {
      async decideRequest(request, envelopes) {
        let waited: Promise<void>;
        do {
          waited = paused;
          await waited;
          // A pause may follow another one.
        } while (waited !== paused);
        const decided = intake.decideRequest(request, envelopes);
        inFlight.add(decided);
        try {
          const result = await decided;
          log.add(request.connectionId, result.answers);
          return result;
        } finally {
          inFlight.delete(decided);
        }
      },
    },
    pause(work) {
      const before = paused;
      const pausing = before.then(async () => {
        await Promise.allSettled(inFlight);
        await work();
      });
      paused = pausing.catch(() => undefined);
      return pausing;
    },
  };
}
