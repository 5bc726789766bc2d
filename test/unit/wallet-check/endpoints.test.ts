/** The checks of the catalogue and the token endpoint. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../../dev/servers/download';
import { parseProfile } from '../../../src/wallet/profile-file';
import { type EndpointReply, endpointChecksFor } from '../../../src/wallet-check/endpoints';

const NOW = 1_800_000_000;

function checksOf(more: string) {
  const text = readFileSync(join(projectRoot, 'schemas/examples/wallet-minimal.yaml'), 'utf8');
  const parsed = parseProfile(`${text}\n${more}`, 'wallet.yaml');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return new Map(endpointChecksFor(parsed.profile).map((check) => [check.scenario.id, check]));
}

const reply = (body: unknown, status = 200, ms = 5): EndpointReply => ({
  status,
  body: JSON.stringify(body),
  ms,
});
const games = (count: number) => reply({ data: { games: Array(count).fill({ id: 'g' }) } });

describe('catalogue', () => {
  const checks = checksOf(
    'catalogue: { url: "http://o/catalogue?full=1", timestamp_header: X-Time, items: data.games }',
  );
  const check = (id: string) => checks.get(`catalogue-${id}`)!;

  test.each([
    ['now', 0],
    ['old', -290],
    ['too-old', -310],
    ['ahead', 20],
    ['too-far-ahead', 40],
  ])('%s has a time of %i s from now', (id, seconds) => {
    expect(check(id).request(NOW).headers.get('X-Time')).toBe(String(NOW + seconds));
  });

  test.each([
    ['least-limit', '1'],
    ['most-limit', '1000'],
    ['zero-limit', '0'],
    ['larger-limit', '1001'],
    ['default-limit', null],
  ])('%s has the limit %p', (id, limit) => {
    const { searchParams } = new URL(check(id).request(NOW).url);
    expect([searchParams.get('limit'), searchParams.get('full')]).toEqual([limit, '1']);
  });

  test.each([
    ['now', games(3), undefined],
    ['now', reply({}, 401), 'HTTP 200'],
    ['now', reply({}), 'a list at data.games (catalogue.items)'],
    ['too-old', reply({}, 401), undefined],
    ['too-old', games(1), 'a status from 400 to 499'],
    ['too-old', reply({}, 500), 'a status from 400 to 499'],
    ['least-limit', games(2), 'at most 1 entries, not 2'],
    ['most-limit', games(1_001), 'at most 1000 entries, not 1001'],
    ['zero-limit', games(0), 'a status from 400 to 499'],
    ['zero-limit', reply({}, 400), undefined],
    ['larger-limit', games(1_000), undefined],
    ['larger-limit', games(1_001), 'at most 1000 entries, not 1001'],
    ['larger-limit', reply({}, 400), undefined],
    ['default-limit', games(200), undefined],
    ['default-limit', games(201), 'at most 200 entries, not 201'],
  ])('%s judges an answer (%#)', (id, answer, fault) => {
    expect(check(id).fault(answer, NOW)).toBe(fault);
  });
});

describe('token endpoint', () => {
  const jwt = (claims: object) => ({
    token: `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`,
  });
  const byJwt = checksOf('token_endpoint: { url: "http://o/token", method: POST, jwt: token }');
  const byFields = checksOf(
    'token_endpoint: { url: "http://o/token", expiry: expires_at, player_id: player.id }',
  );

  test.each([
    ['in-time', reply({}, 200, 1_500), undefined],
    ['in-time', reply({}, 200, 1_501), 'an answer within 1500 ms, not 1501 ms'],
    ['in-time', reply({}, 302), 'HTTP 200'],
    ['expiry', reply(jwt({ exp: NOW + 300 })), undefined],
    ['expiry', reply(jwt({ exp: NOW + 59 })), 'an expiry in 60 to 900 s, not in 59 s'],
    ['expiry', reply(jwt({ exp: NOW + 60 })), undefined],
    ['expiry', reply(jwt({ exp: NOW + 900 })), undefined],
    ['expiry', reply(jwt({ exp: NOW + 901 })), 'an expiry in 60 to 900 s, not in 901 s'],
    ['expiry', reply(jwt({ exp: NOW + 86_400 })), 'an expiry in 60 to 900 s, not in 86400 s'],
    ['expiry', reply(jwt({})), 'a time at exp (token_endpoint.expiry)'],
    ['expiry', reply({ token: 'opaque' }), 'a time at exp (token_endpoint.expiry)'],
    ['player', reply(jwt({ external_player_id: 'p' })), undefined],
    ['player', reply(jwt({ external_player_id: '' })), expect.stringContaining('external_player_id')],
    ['player', reply(jwt({ external_player_id: `${'é'.repeat(127)}p` })), undefined],
    ['player', reply(jwt({ external_player_id: 'é'.repeat(128) })), expect.stringContaining('255 bytes')],
  ])('%s judges an answer (%#)', (id, answer, fault) => {
    expect(byJwt.get(`token-${id}`)!.fault(answer, NOW)).toEqual(fault);
  });

  test('the fields of the answer itself are read, in each form of a time', () => {
    const times = [NOW + 300, (NOW + 300) * 1_000, new Date((NOW + 300) * 1_000).toISOString()];
    for (const expires_at of times)
      expect(byFields.get('token-expiry')!.fault(reply({ expires_at }), NOW)).toBeUndefined();
    expect(byFields.get('token-player')!.fault(reply({ player: { id: 'p' } }), NOW)).toBeUndefined();
  });
});
