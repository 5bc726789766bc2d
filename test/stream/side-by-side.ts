/**
 * Tests that run side by side, because most of the time of a worker's test is waiting. Jest's own concurrent
 * tests do not work here: kafkajs loads parts of itself when they are first needed. Jest forbids such loading
 * between two tests. The option `-t` chooses the tests that are reported, not the tests that run.
 */
import { within } from '../../dev/servers/deadline';
import { killWorkers } from '../support/worker';

/**
 * Time for a late scenario to clean up, once its workers are gone. Its leftovers would disturb the next file.
 */
const CLEANUP_MS = 15_000;
/** All scenarios of a file. Each of their waits has a deadline of its own, so this one meets a hang alone. */
const DEADLINE_MS = 600_000;
/** Ends this long before the overall deadline, so that finished scenarios can still be reported. */
const REPORT_MS = 1_000;

interface Scenario {
  readonly title: string;
  readonly run: () => Promise<void>;
  failure: { error: unknown } | null;
  ran: boolean;
}

/** @returns `it`, for tests that all run before the first of them is reported, `atOnce` at a time */
export function sideBySide(atOnce = 4): (title: string, run: () => Promise<void>) => void {
  const scenarios: Scenario[] = [];
  const running = new Set<Promise<void>>();

  beforeAll(async () => {
    const end = Date.now() + DEADLINE_MS - REPORT_MS;
    const waiting = [...scenarios];
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined && Date.now() < end; next = waiting.shift()) {
        const scenario = next.run();
        running.add(scenario);
        const ended = () => running.delete(scenario);
        scenario.then(ended, ended);
        try {
          await within(`"${next.title}" ends`, end - Date.now(), scenario);
        } catch (error) {
          next.failure = { error };
        }
        next.ran = true;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
  }, DEADLINE_MS);

  afterAll(async () => {
    await killWorkers();
    const late = within('tests that are late end', CLEANUP_MS, Promise.allSettled(running));
    await late.catch(() => undefined);
  }, 2 * CLEANUP_MS);

  return (title, run) => {
    const scenario: Scenario = { title, run, failure: null, ran: false };
    scenarios.push(scenario);
    it(title, () => {
      if (!scenario.ran) throw new Error('did not run in time');
      if (scenario.failure !== null) throw scenario.failure.error;
    });
  };
}
