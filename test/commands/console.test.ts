/** The console as operators use it: two operators with equal ids, over one store, as the role of a reader. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import type { Page } from 'playwright-core';
import { sleep } from '../../dev/servers/deadline';
import { PAGES } from '../../src/console/handler';
import { accessibilityProblems, testInBrowser } from '../support/browser';
import {
  aToken,
  type ConsoleWorld,
  HOSTILE_IDS,
  MARK_OF_ACME,
  MARK_OF_BRAVO,
  openConsoleWorld,
  PROMOTION,
  PSEUDONYM,
  type RunningConsole,
  startConsole,
} from '../support/console';
import { aBet } from '../support/ledger';
import { killWorkers, ONE_REQUEST, RunningCommand } from '../support/worker';

const TOKENS = { acme: aToken(), bravo: aToken() };
type OperatorName = keyof typeof TOKENS;
const MARKS = { acme: MARK_OF_ACME, bravo: MARK_OF_BRAVO };
const OTHER = { acme: 'bravo', bravo: 'acme' } as const;

let world: ConsoleWorld;
let running: RunningConsole;

beforeAll(async () => {
  world = await openConsoleWorld();
  running = await startConsole(TOKENS, { DATABASE_URL: world.readerUrl });
});
afterAll(async () => {
  await killWorkers();
  await world?.close();
});

interface Reply {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

async function ask(path: string, token: string | null, init: RequestInit = {}): Promise<Reply> {
  const response = await fetch(`${running.origin}${path}`, {
    redirect: 'manual',
    ...init,
    headers: { ...ONE_REQUEST, ...(token !== null && { authorization: `Bearer ${token}` }), ...init.headers },
  });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

const encoded = encodeURIComponent;
/** Addresses with ids of both operators, and with names of the other one. */
const ADDRESSES = [
  ...[...PAGES.keys()],
  ...['/?range=24h', '/?range=7d', '/connections?range=24h', '/duplicates?range=7d', '/anomalies?range=7d'],
  ...['e-1', 'e-5', 'e-6', `e-${MARK_OF_ACME}`, `e-${MARK_OF_BRAVO}`, ...HOSTILE_IDS].map(
    (id) => `/event?id=${encoded(id)}`,
  ),
  ...['r-1', 'r-2', `round-${MARK_OF_ACME}`, `round-${MARK_OF_BRAVO}`, ...HOSTILE_IDS].map(
    (id) => `/round?id=${encoded(id)}`,
  ),
  ...[`/promotion?promotion=${PROMOTION}`, `/promotion?promotion=${encoded("' or 1=1 --")}`],
  ...[PSEUDONYM, "'", MARK_OF_BRAVO].map(
    (player) => `/promotion-player?promotion=${PROMOTION}&player=${encoded(player)}`,
  ),
  ...['acme', 'bravo', '/acme', '../bravo', 'apart', '%27 or true --'].flatMap((feed) => [
    `/event?feed=${encoded(feed)}&id=e-1`,
    `/round?feed=${encoded(feed)}&id=r-1`,
  ]),
  ...['/?operator=bravo', '/?range=1y', '/?range=1h&range=24h', '/?until=yesterday', '/event?id=%00'],
  ...['/event?id=%ED%A0%80', '/nothing', '/event/..%2f', '//bravo/event', '/?range=%3Cscript%3E'],
];

/** A page has no text of the other operator. Its own address may have named the mark. */
function expectOwnAlone(operator: OperatorName, address: string, text: string): void {
  const otherMark = MARKS[OTHER[operator]];
  const path = address.replaceAll('%ED%A0%80', '').replaceAll(/%00|%2f/g, '');
  if (!decodeURIComponent(path).includes(otherMark)) expect(text).not.toContain(otherMark);
  expect(text).not.toContain(operator === 'acme' ? '2000.02' : '10.01');
  expect(text).not.toContain('player-');
}

describe.each<OperatorName>(['acme', 'bravo'])('%s', (operator) => {
  test.each(ADDRESSES)('sees nothing of the other operator at %s', async (address) => {
    const { status, text } = await ask(address, TOKENS[operator]);
    expect([200, 400, 404]).toContain(status);
    expectOwnAlone(operator, address, text);
    expect(text).not.toMatch(/<script|<img|onerror=(?!alert)|<h1>owned/);
  });
});

/** The parameters with which each page has rows. The others need none. */
const EXAMPLE_PARAMETERS: Readonly<Record<string, string>> = {
  '/event': '?id=e-1',
  '/round': '?id=r-1',
  '/promotion': `?promotion=${PROMOTION}`,
  '/promotion-player': `?promotion=${PROMOTION}&player=${PSEUDONYM}`,
};

/** The reverse of escapeHtml. */
const unescaped = (text: string): string =>
  [...ENTITIES].reduce((before, [entity, character]) => before.replaceAll(entity, character), text);
const ENTITIES = [
  ...[['&lt;', '<'] as const, ['&gt;', '>'] as const, ['&quot;', '"'] as const, ['&#39;', "'"] as const],
  ['&amp;', '&'] as const,
];

test('the page of an event has the field of each fault, with the remedy', async () => {
  await world.store
    .partition('acme', 5)
    .read(aBet({ event_id: 'e-faulty', occurred_at: 'now', player_ref: undefined }));
  const { text } = await ask('/event?id=e-faulty', TOKENS.acme);
  const rows = [...text.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) => row.replace(/<[^>]+>/g, ' '));
  expect(rows.find((row) => row.includes('/occurred_at'))).toMatch(/malformed\s+Fix the field/);
  expect(rows.find((row) => row.includes('/player_ref'))).toMatch(/no_player\s+Name the player/);
  expect((await ask('/event?id=e-1', TOKENS.acme)).text).not.toContain('Faults');
});

describe('each answer', () => {
  test.each([
    ['a page', '/', TOKENS.acme],
    ['a fault', '/?range=1y', TOKENS.acme],
    ['no page', '/nothing', TOKENS.acme],
    ['the sign-in', '/sign-in', null],
    ['a refusal', '/', null],
    ['the style sheet', '/console.css', null],
  ])('of %s forbids scripts, frames, caches and guesses of its type', async (_, path, token) => {
    const { headers } = await ask(path, token);
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/^default-src 'none'; /);
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/script-src|unsafe|\*|https?:|data:/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
  });

  test('has no style and no script within it', async () => {
    for (const path of PAGES.keys())
      expect((await ask(path, TOKENS.acme)).text).not.toMatch(/<style|<script| style=| on\w+=/);
  });

  test.each([...PAGES.keys()])('%s has the SQL behind it, which a reader may run', async (path) => {
    const { status, text } = await ask(`${path}${EXAMPLE_PARAMETERS[path] ?? ''}`, TOKENS.acme);
    const [, section = ''] = /<section class="sql" aria-label="SQL">(.*?)<\/section>/s.exec(text) ?? [];
    const queries = [...section.matchAll(/<pre tabindex="0"><code>(.*?)<\/code><\/pre>/gs)].map(
      ([, sql = '']) => unescaped(sql),
    );
    expect([status, queries.length > 0]).toEqual([200, true]);
    const client = new Client(world.readerUrl);
    await client.connect();
    try {
      // A reader may run each of them, as it is.
      for (const sql of queries) {
        expect(sql).toContain("'acme'");
        expect(sql).not.toMatch(/\$\d/);
        await client.query(sql);
      }
    } finally {
      await client.end();
    }
  });

  test('to HEAD has no body, and the same length', async () => {
    const [whole, head] = [await ask('/sign-in', null), await ask('/sign-in', null, { method: 'HEAD' })];
    expect([head.text, head.headers.get('content-length')]).toEqual([
      '',
      whole.headers.get('content-length'),
    ]);
  });
});

test('a leaderboard names the line of its points, and a promotion without players says so', async () => {
  expect((await ask('/promotion?promotion=race', TOKENS.acme)).text).toContain('line 1 of the points');
  const { text } = await ask('/promotion?promotion=unused', TOKENS.acme);
  expect(text).toMatch(/<p>No player has progress yet\.<\/p>\s*<h2>Players<\/h2>\s*<p>None\.<\/p>/);
});

test('the log has no token and no id, and the metrics count pages', async () => {
  const wrong = aToken();
  await ask('/event?id=e-1', wrong);
  await ask('/event?id=e-1', TOKENS.acme);
  const output = running.command.output();
  expect(output).toContain('wrong token of the console');
  for (const secret of [wrong, ...Object.values(TOKENS), MARK_OF_ACME, MARK_OF_BRAVO])
    expect(output).not.toContain(secret);
  const { text } = await running.command.get('/metrics');
  expect(text).toMatch(/promo_intake_console_requests_total\{page="\/event",status="200"\} [1-9]/);
  expect(text).toMatch(/promo_intake_console_wrong_tokens_total [1-9]/);
  expect(text).toMatch(/promo_intake_console_request_seconds_count\{page="\/event"\} [1-9]/);
  expect(text).toContain('promo_intake_console_slow_queries_total 0');
  expect(text).not.toContain('promo_intake_verdicts_total');
});

test('a replaced token counts without a restart, and ends the sessions of the old one', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'console-'));
  const file = join(directory, 'tokens.json');
  const write = (tokens: object) => writeFileSync(file, JSON.stringify(tokens));
  const [old, fresh] = [aToken(), aToken()];
  write({ acme: old });
  const own = await startConsole(undefined, { CONSOLE_TOKENS_FILE: file, DATABASE_URL: world.readerUrl });
  const as = (headers: Record<string, string>) =>
    fetch(`${own.origin}/anomalies`, { headers, redirect: 'manual' });
  const bearer = async (token: string) => (await as({ authorization: `Bearer ${token}` })).status;
  try {
    const signedIn = await fetch(`${own.origin}/sign-in`, {
      method: 'POST',
      body: new URLSearchParams({ token: old }),
      redirect: 'manual',
    });
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await as({ cookie })).status).toBe(200);
    write({ acme: fresh });
    // The file is read at most once a second, with a request. Wrong tokens have a limit.
    await sleep(1_200);
    expect(await bearer(fresh)).toBe(200);
    expect((await as({ cookie })).status).toBe(401);
    expect(await bearer(old)).toBe(401);
    writeFileSync(file, '{');
    await sleep(1_200);
    expect(await bearer(fresh)).toBe(200);
    expect(own.command.logged('changed secrets are not valid, keeping the old ones')).toHaveLength(1);
  } finally {
    rmSync(directory, { recursive: true });
    expect(await own.command.stop()).toEqual({ code: 0, signal: null });
  }
});

test('a console without tokens, or whose port is taken, does not start', async () => {
  const without = new RunningCommand(['console'], { HTTP_PORT: '0', DATABASE_URL: world.readerUrl });
  expect(await without.ended).toEqual({ code: 2, signal: null });
  expect(without.output()).toContain('CONSOLE_TOKENS: is not set');
  const { port } = new URL(running.origin);
  const taken = new RunningCommand(['console'], {
    HTTP_PORT: '0',
    CONSOLE_PORT: port,
    CONSOLE_TOKENS: JSON.stringify(TOKENS),
    DATABASE_URL: world.readerUrl,
  });
  expect(await taken.ended).toEqual({ code: 1, signal: null });
  expect(taken.output()).toContain('CONSOLE_PORT');
});

/** Signs in by the form. */
async function signIn(page: Page, operator: OperatorName): Promise<void> {
  await page.goto(running.origin);
  await page.getByLabel('Token of your operator').fill(TOKENS[operator]);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(`Operator ${operator}`).waitFor();
}

/** With SCREENSHOTS set to a directory, each page is kept there as a picture. */
async function picture(page: Page, name: string): Promise<void> {
  const directory = process.env.SCREENSHOTS;
  if (directory !== undefined)
    await page.screenshot({ path: join(directory, `${name}.png`), fullPage: true });
}

describe('in Chromium', () => {
  testInBrowser(
    'an operator signs in, finds a rejected event with its remedy, and its round',
    async ({ page, allow }) => {
      allow(running.origin);
      await signIn(page, 'acme');
      await picture(page, 'overview');
      expect(await page.getByRole('row', { name: /bad_amount/ }).textContent()).toContain(
        'Send the exact amount as a decimal string, with a new event_id.',
      );
      await page
        .getByRole('row', { name: /bad_amount/ })
        .getByRole('link')
        .click();
      await page.getByRole('heading', { name: 'Event', level: 1 }).waitFor();
      expect(await page.getByText('rejected', { exact: true }).count()).toBe(1);
      await page.getByRole('link', { name: 'r-3' }).click();
      await page.getByRole('heading', { name: 'Timeline' }).waitFor();
      expect(await page.getByRole('row').filter({ hasText: 'e-6' }).count()).toBe(1);
      await page.getByRole('textbox', { name: 'Event' }).fill(`e-${MARK_OF_BRAVO}`);
      await page.getByRole('button', { name: 'Find' }).first().click();
      await page.getByText('No event of yours with this event_id was decided').waitFor();
    },
  );

  for (const operator of ['acme', 'bravo'] as const)
    testInBrowser(`${operator} sees nothing of the other operator at any address`, async (visit) => {
      const { page, allow, expectProblem } = visit;
      allow(running.origin);
      await signIn(page, operator);
      const statuses = new Map<number, number>();
      for (const address of ADDRESSES) {
        const status = (await page.goto(`${running.origin}${address}`))?.status() ?? 0;
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        expect([200, 400, 404]).toContain(status);
        expectOwnAlone(operator, address, await page.content());
        expect(await page.locator('script, img, main h1:text-is("owned")').count()).toBe(0);
      }
      // Pages of all kinds were seen, errors too.
      expect([...statuses.keys()].sort()).toEqual([200, 400, 404]);
      expectProblem(/^console: Failed to load resource: the server responded with a status of 40[04] /);
    });

  testInBrowser('no page has a problem of accessibility', async ({ page, allow }) => {
    allow(running.origin);
    await page.goto(running.origin);
    expect(await accessibilityProblems(page)).toEqual([]);
    await picture(page, 'sign-in');
    await signIn(page, 'acme');
    for (const [name, path] of [
      ...[...PAGES.keys()].map((path) => [path.slice(1) || 'overview-again', path] as const),
      ...[
        ['event-of-a-refund', '/event?id=e-5'],
        ['round-of-a-refund', '/round?id=r-2'],
      ],
      ...[
        ['event-with-duplicates', '/event?id=e-1'],
        ['hostile', `/event?id=${encoded(HOSTILE_IDS[0] ?? '')}`],
      ],
      ['round-with-anomaly', '/round?id=r-1'],
    ]) {
      await page.goto(`${running.origin}${path}`);
      for (const summary of await page.locator('summary').all()) await summary.click();
      await picture(page, name ?? '');
      expect([path, await accessibilityProblems(page)]).toEqual([path, []]);
    }
  });

  testInBrowser(
    'without scripts, the next operator at the same browser sees nothing of the one before',
    async ({ page, allow }) => {
      allow(running.origin);
      await signIn(page, 'acme');
      await page.goto(`${running.origin}/event?id=e-${MARK_OF_ACME}`);
      expect(await page.content()).toContain('10.01');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Token of your operator').waitFor();
      await page.goto(`${running.origin}/round?id=r-1`);
      expect(await page.content()).not.toContain('10.01');
      await signIn(page, 'bravo');
      for (const path of [...PAGES.keys(), '/event?id=e-1', '/round?id=r-1', '/event?feed=apart&id=e-1']) {
        await page.goto(`${running.origin}${path}`);
        const content = await page.content();
        expect(content).toContain('bravo');
        expect(content).not.toMatch(new RegExp(`${MARK_OF_ACME}|acme|10\\.01|3\\.33`));
      }
    },
    { javaScriptEnabled: false },
  );
});
