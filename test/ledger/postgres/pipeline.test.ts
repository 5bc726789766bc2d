/**
 * Several statements in one request: which ones are answered, which fail, and how far the connection is
 * usable afterwards.
 */
import type { PoolClient } from 'pg';
import type { StoreError } from '../../../src/postgres/errors';
import { type PipelinedQuery, parametersOf, type Row, sendQueries } from '../../../src/postgres/pipeline';
import { freshStore, type TestStore } from '../../support/ledger';

const DEADLINE_MS = 60_000;

let store: TestStore;
let client: PoolClient;
beforeAll(async () => {
  store = await freshStore({ own: true });
});
afterAll(() => store.close());
beforeEach(async () => {
  client = await store.pool.connect();
});
afterEach(() => client.release(true));

interface Question {
  readonly name: string;
  readonly text: string;
  readonly values?: readonly unknown[];
}

/** Sends all statements in one request. @returns the rows of each, or the text of its error */
function asked(questions: readonly Question[], deadlineMs = DEADLINE_MS): Promise<(Row[] | string)[]> {
  const statements: PipelinedQuery[] = [];
  const answers = questions.map(
    ({ name, text, values = [] }) =>
      new Promise<Row[] | string>((resolve) => {
        const reject = (error: StoreError) => resolve(`${error.message} (${error.sqlState})`);
        statements.push({ name, text, parameters: parametersOf(values), resolve, reject });
      }),
  );
  sendQueries(client, statements, deadlineMs);
  return Promise.all(answers);
}

const ONE = { name: 'one', text: 'select 1, null' };
const TWO = { name: 'two', text: 'select $1::text || n from generate_series(1, 2) n', values: ['row '] };
const ANSWER_OF_TWO = [['row 1'], ['row 2']];
const FAILS = { name: 'fails', text: 'select 1 / $1::int', values: [0] };

test('each statement gets its own rows, as text or null', async () => {
  expect(await asked([ONE, TWO, { ...FAILS, values: [1] }])).toEqual([[['1', null]], ANSWER_OF_TWO, [['1']]]);
});

test('a statement that is twice in a request, or was sent before, is prepared once', async () => {
  expect(await asked([TWO, TWO])).toEqual([ANSWER_OF_TWO, ANSWER_OF_TWO]);
  expect(await asked([TWO])).toEqual([ANSWER_OF_TWO]);
});

test.each([
  ['runs into an error', FAILS, 'fails: division by zero (22012)'],
  ['cannot be prepared', { name: 'wrong', text: 'selec' }, 'wrong: syntax error at or near "selec" (42601)'],
])(
  'where one %s, the statements before it are answered, and those after it do not run',
  async (_, failing, error) => {
    expect(await asked([ONE, failing, TWO, FAILS])).toEqual([[['1', null]], error, error, error]);
    // The statements that did not run were not prepared either, so they are prepared now.
    expect(await asked([TWO, ONE])).toEqual([ANSWER_OF_TWO, [['1', null]]]);
    expect(await asked([failing])).toEqual([error]);
  },
);

test('two texts of one name are a mistake, and nothing is sent', async () => {
  await asked([ONE]);
  const other = { name: 'one', text: 'select 2' };
  const error = 'another statement has the name one (undefined)';
  expect(await asked([TWO, other])).toEqual([`two: ${error}`, `two: ${error}`]);
  expect(await asked([ONE, TWO])).toEqual([[['1', null]], ANSWER_OF_TWO]);
});

test('a late answer fails the request from its first statement on, since Postgres answers all statements together', async () => {
  const slow = { name: 'slow', text: 'select pg_sleep(30)' };
  const error = 'one: no answer within 100 ms (undefined)';
  expect(await asked([ONE, slow, TWO], 100)).toEqual([error, error, error]);
});

test('no timer leaks', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  await asked([ONE]);
  const before = timers();
  for (let i = 0; i < 5; i++) await asked([ONE, TWO]);
  await asked([FAILS]);
  expect(timers()).toBeLessThanOrEqual(before);
});
