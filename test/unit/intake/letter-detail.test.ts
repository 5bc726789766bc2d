/** The detail of a dead letter, by which its sender can be found. */
import { letterCause, letterDetail } from '../../../src/intake/letter-detail';

const json = { type: 'json', bytes: null } as const;

test.each([
  [
    'no claim',
    [],
    'the record has no header connection-id, and its topic does not belong to exactly one connection',
  ],
  ['a claim', ['acme-x'], 'the header connection-id claims "acme-x", which is no connection of this topic'],
  ['two claims', ['a', 'b'], 'the header connection-id claims several connections: "a", "b"'],
  [
    'a claim that would harm a terminal',
    ['\u001b[2J'],
    'the header connection-id claims "\\u001b[2J", which is no connection of this topic',
  ],
])('%s is named [S5]', (_, claims, detail) => {
  expect(letterDetail({ payload: json, claims }, 'unclaimed')).toBe(detail);
});

test('the detail stays short, however long and many the claims are [S5]', () => {
  const claims = Array.from({ length: 100 }, (_, n) => `${n}${'x'.repeat(10_000)}`);
  expect(letterDetail({ payload: json, claims }, 'unclaimed').length).toBeLessThan(400);
});

test('the detail names the schema id, and the fault of a batch [S5]', () => {
  expect(
    letterDetail({ payload: { type: 'schema_unknown', schemaId: 17 }, claims: [] }, 'schema_unknown'),
  ).toBe('the schema registry has no readable schema of id 17');
  expect(
    letterDetail(
      { payload: { type: 'undecodable', because: 'there is no codec 7' }, claims: [] },
      'undecodable',
    ),
  ).toBe('there is no codec 7');
});

test.each([
  ['no claim', []],
  ['a claim', ['player-7']],
  ['two claims', ['player-7', 'player-8']],
])('the log gives the reason, without any text of the sender: %s [S5]', (_, claims) => {
  const cause = letterCause({ payload: json, claims }, 'unclaimed');
  expect(cause).toContain('connection-id');
  expect(cause).not.toContain('player');
});
