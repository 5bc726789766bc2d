import { Coverage } from './faults';
import { makePlan } from './plan';
import { simulate } from './simulation';

test('runs', async () => {
  const coverage = new Coverage();
  const began = performance.now();
  let steps = 0;
  const fails = new Map<string, number[]>();
  const from = Number(process.env.SEED ?? 1);
  const count = Number(process.env.SEEDS ?? 1);
  for (let seed = from; seed < from + count; seed++) {
    const outcome = await simulate(makePlan(seed), coverage, { traced: count === 1 });
    steps += outcome.steps;
    if (outcome.problem !== null) {
      const k = outcome.problem.slice(0, 160).replace(/\d+/g, 'N');
      fails.set(k, [...(fails.get(k) ?? []), seed]);
    }
    if (count === 1) process.stdout.write(outcome.trace.join('\n') + '\n' + outcome.problem + '\n');
  }
  process.stdout.write(`${steps} steps, ${Math.round(performance.now() - began)} ms\n`);
  for (const [k, seeds] of fails) process.stdout.write(`${seeds.length}x ${k}  e.g. ${seeds.slice(0, 5)}\n`);
  process.stdout.write(`missing ${coverage.missing().length}: ${coverage.missing().join('; ')}\n`);
}, 600_000);
