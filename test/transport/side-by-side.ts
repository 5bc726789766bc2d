/**
 * Tests that run side by side: most of the time of a worker's test is waiting. Jest's own `it.concurrent` cannot be used here: kafkajs
 * loads parts of itself when they are first needed, which Jest forbids between two tests. `-t` chooses what is reported, not what runs.
 */

interface Scenario {
  readonly title: string;
  readonly run: () => Promise<void>;
  failure: { error: unknown } | null;
  ran: boolean;
}

/** @returns `it`, for tests that all run before the first of them is reported, `atOnce` at a time */
export function sideBySide(
  deadlineMs: number,
  atOnce = 4,
): (title: string, run: () => Promise<void>) => void {
  const scenarios: Scenario[] = [];

  beforeAll(async () => {
    const waiting = [...scenarios];
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        try {
          await next.run();
        } catch (error) {
          next.failure = { error };
        }
        next.ran = true;
      }
    };
    await Promise.all(Array.from({ length: atOnce }, work));
  }, deadlineMs);

  return (title, run) => {
    const scenario: Scenario = { title, run, failure: null, ran: false };
    scenarios.push(scenario);
    it(title, () => {
      if (!scenario.ran) throw new Error('did not run in time');
      if (scenario.failure !== null) throw scenario.failure.error;
    });
  };
}
