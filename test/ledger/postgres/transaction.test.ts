/** The end of a transaction, on a real connection. */
import { inTransaction, type Session } from '../../../src/postgres/transaction';
import { freshStore, type TestStore } from '../../support/ledger';

let store: TestStore;
beforeAll(async () => {
  store = await freshStore({ own: true });
});
afterAll(() => store.close());

const NOTE = { name: 'note', text: 'insert into notes select $1::text' };

test('work that goes on beside a failure sends nothing, since it would run outside of the transaction', async () => {
  await store.rows('create table notes (text text)');
  let left: Session | undefined;
  const failed = inTransaction(store.pool, async (session) => {
    left = session;
    await session.query(NOTE, ['within']);
    throw new Error('a failure of the work');
  });
  await expect(failed).rejects.toThrow('a failure of the work');
  await expect(left?.query(NOTE, ['beside'])).rejects.toThrow('note after a failure');
  await expect(left?.write([{ name: 'note', text: `insert into notes values ('beside')` }])).rejects.toThrow(
    'a write after a failure',
  );
  await inTransaction(store.pool, (session) => session.query(NOTE, ['later']));
  expect(await store.rows('select text from notes')).toEqual([['later']]);
});
