/** A reader in a process of its own, which is killed in the middle: see model.test.ts. */
import { TestStore } from '../support/ledger';
import { makePlan } from './plan';
import { read } from './reading';

async function main({ DATABASE_URL = '', MODEL_SEED, MODEL_PARTITION, MODEL_READER }: NodeJS.ProcessEnv) {
  const partition = makePlan(Number(MODEL_SEED)).partitions[Number(MODEL_PARTITION)];
  const reader = partition?.readers[Number(MODEL_READER)];
  if (partition === undefined || reader === undefined) throw new Error('the seed plans no such reader');
  const store = new TestStore(DATABASE_URL, { own: true });
  process.stdout.write('reads\n');
  await read(store.writer({ name: 'promo-model' }), partition, reader);
  await store.disconnect();
}

main(process.env).catch((error: unknown) => {
  process.stderr.write(`${error}\n`);
  process.exitCode = 1;
});
