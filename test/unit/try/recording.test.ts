/** The intake of a throwaway store: it lists each answer, and stops for a reset. */
import type { IntakeResult } from '../../../src/intake/intake';
import { recordAnswers } from '../../../src/try/recording';

const DECIDED: IntakeResult = { answers: [], undecided: null };
/** The promises that are settled already have their effects. */
const soon = () => new Promise((resolve) => setImmediate(resolve));

/** An intake whose decisions end when the test ends them. */
function makeScene() {
  const seen: string[] = [];
  const open: { resolve: (result: IntakeResult) => void; reject: (error: Error) => void }[] = [];
  const { intake, pause } = recordAnswers(
    {
      decideRequest({ connectionId }) {
        seen.push(`begins ${connectionId}`);
        return new Promise((resolve, reject) => open.push({ resolve, reject }));
      },
    },
    { add: (connectionId) => void seen.push(`lists ${connectionId}`) },
  );
  const decide = (connectionId: string) => intake.decideRequest({ connectionId }, []);
  return { seen, open, decide, pause };
}

test('an answer is listed under its connection, and returned', async () => {
  const { seen, open, decide } = makeScene();
  const result = decide('a');
  await soon();
  open[0]?.resolve(DECIDED);
  expect(await result).toBe(DECIDED);
  expect(seen).toEqual(['begins a', 'lists a']);
});

test('a decision that fails is not listed, and its error is returned', async () => {
  const { seen, open, decide } = makeScene();
  const result = decide('a');
  await soon();
  open[0]?.reject(new Error('the store is away'));
  await expect(result).rejects.toThrow('the store is away');
  expect(seen).toEqual(['begins a']);
});

test('a pause waits for the decisions in flight, failed ones too, and later ones wait for it', async () => {
  const { seen, open, decide, pause } = makeScene();
  const [first, second] = [decide('a'), decide('b')];
  await soon();
  let endWork = () => {};
  const paused = pause(
    () =>
      new Promise((resolve) => {
        seen.push('works');
        endWork = resolve;
      }),
  );
  const third = decide('c');
  open[0]?.resolve(DECIDED);
  await first;
  await soon();
  expect(seen).not.toContain('works');
  open[1]?.reject(new Error('the store is away'));
  await expect(second).rejects.toThrow();
  await soon();
  expect(seen).toEqual(['begins a', 'begins b', 'lists a', 'works']);
  endWork();
  await paused;
  await soon();
  expect(seen.at(-1)).toBe('begins c');
  open[2]?.resolve(DECIDED);
  await third;
});

test('pauses run one after the other, and a decision waits for both', async () => {
  const { seen, open, decide, pause } = makeScene();
  const pauses = ['first', 'second'].map((name) =>
    pause(async () => {
      seen.push(`${name} begins`);
      await soon();
      seen.push(`${name} ends`);
    }),
  );
  const decision = decide('a');
  await Promise.all(pauses);
  await soon();
  expect(seen).toEqual(['first begins', 'first ends', 'second begins', 'second ends', 'begins a']);
  open[0]?.resolve(DECIDED);
  await decision;
});

test('a pause whose work fails says so, and decisions go on', async () => {
  const { open, decide, pause } = makeScene();
  await expect(pause(() => Promise.reject(new Error('no reset')))).rejects.toThrow('no reset');
  const decision = decide('a');
  await soon();
  open[0]?.resolve(DECIDED);
  expect(await decision).toBe(DECIDED);
});
