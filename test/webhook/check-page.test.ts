/** The page that checks events, as the webhook serves it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../dev/servers/download';
import { withWebhook } from '../stream/scene';
import { testInBrowser } from '../support/browser';
import { killWorkers } from '../support/worker';

const PAGE = readFileSync(join(projectRoot, 'dist', 'check.html'), 'utf8');

afterEach(killWorkers);

test('the page is served to everyone, compressed where that is accepted, with its policy and tag', () =>
  withWebhook({}, async ({ webhook }) => {
    const get = (headers: Record<string, string> = {}, method = 'GET') =>
      fetch(`http://127.0.0.1:${webhook.port}/check`, { method, headers });
    const plain = await get({ 'accept-encoding': 'identity' });
    expect([plain.status, await plain.text()]).toEqual([200, PAGE]);
    const [, policy = ''] = /content-security-policy" content="([^"]+)"/.exec(PAGE) ?? [];
    expect(policy).toMatch(
      /^default-src 'none'; script-src 'sha256-\S+'; style-src 'sha256-\S+'; img-src data:; /,
    );
    expect(Object.fromEntries(plain.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-length': String(Buffer.byteLength(PAGE)),
      'content-security-policy': `${policy}; frame-ancestors 'none'`,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'public, max-age=3600',
      vary: 'accept-encoding',
    });
    const compressed = await get({ 'accept-encoding': 'br, gzip;q=0.8' });
    expect([compressed.headers.get('content-encoding'), await compressed.text()]).toEqual(['gzip', PAGE]);
    expect(Number(compressed.headers.get('content-length'))).toBeLessThan(80_000);
    expect((await get({ 'accept-encoding': 'gzip;q=0' })).headers.get('content-encoding')).toBeNull();
    const tag = compressed.headers.get('etag') ?? '';
    expect(tag).not.toBe(plain.headers.get('etag'));
    const known = await get({ 'accept-encoding': 'gzip', 'if-none-match': tag });
    expect([known.status, await known.text()]).toEqual([304, '']);
    const head = await get({ 'accept-encoding': 'identity' }, 'HEAD');
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(Buffer.byteLength(PAGE))]);
    const posted = await get({}, 'POST');
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  }));

testInBrowser(
  'the page of the webhook judges an example, and asks the webhook for nothing more',
  ({ page, allow }) =>
    withWebhook({}, async ({ webhook }) => {
      const origin = `http://127.0.0.1:${webhook.port}`;
      const asked: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      allow(origin);
      const response = await page.goto(`${origin}/check#invalid/bad_amount-comma.json`);
      expect(response?.status()).toBe(200);
      expect(await page.locator('.verdict').allInnerTexts()).toEqual(['rejected/bad_amount']);
      expect(asked).toEqual([`${origin}/check`]);
    }),
);
