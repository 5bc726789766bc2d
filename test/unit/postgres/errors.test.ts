/** The SQLSTATE of an error decides whether its batch waits for the store. */
import { classify, isStoreAway } from '../../../src/ledger/failures';
import { StoreError } from '../../../src/postgres/errors';

const failed = (code: string) => new StoreError('commit', Object.assign(new Error('no'), { code }));

test.each(['EPIPE', 'EPERM', 'ECONNRESET', 'ENOTFOUND'])(
  'the code %s of a lost connection is no SQLSTATE: the store is away [U2] [U4]',
  (code) => {
    expect(failed(code).sqlState).toBeUndefined();
    expect(isStoreAway(failed(code))).toBe(true);
    expect(classify(failed(code))).toBe('undecided');
  },
);

test.each(['40P01', '22P03', 'P0001', 'XX000', 'HV00B'])('%s is a SQLSTATE', (code) => {
  expect(failed(code).sqlState).toBe(code);
});
