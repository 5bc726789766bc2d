/** `promo-intake report` as people run it, and its page in a real Chromium. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { emptyReport, sampleReport } from '../../dev/report-sample';
import { reportPage } from '../../src/report/page';
import { accessibilityProblems, testInBrowser } from '../support/browser';
import { type ConsoleWorld, HOSTILE_IDS, openConsoleWorld } from '../support/console';
import { freshStore } from '../support/ledger';
import { killWorkers, RunningCommand } from '../support/worker';

const directory = mkdtempSync(join(tmpdir(), 'promo-report-'));
const pathOf = (name: string) => join(directory, name);
let world: ConsoleWorld;
beforeAll(async () => {
  world = await openConsoleWorld();
  writeFileSync(pathOf('sample.html'), reportPage(sampleReport()));
  writeFileSync(pathOf('empty.html'), reportPage(emptyReport()));
  const { code } = await run(world.readerUrl, '--out', pathOf('real.html'));
  expect(code).toBe(0);
});
afterEach(killWorkers);
afterAll(async () => {
  await world?.close();
  rmSync(directory, { recursive: true, force: true });
});

async function run(url: string, ...args: string[]) {
  const command = new RunningCommand(['report', ...args], { DATABASE_URL: url });
  const { code } = await command.ending();
  return { code, output: command.output() };
}

test('the figures are JSON on standard output', async () => {
  const { code, output } = await run(
    world.readerUrl,
    '--operator',
    'acme',
    '--json',
    '--time-zone',
    'Europe/Warsaw',
  );
  const report = JSON.parse(output);
  expect([code, report.operator, report.time_zone]).toEqual([0, 'acme', 'Europe/Warsaw']);
  expect(report.totals.differing).toBe(2);
  expect(output).not.toMatch(/player-|bravo|2000\.02/);
});

test.each([
  ['a time zone', ['--time-zone', 'Europe/Warsav'], 2, 'Did you mean Europe/Warsaw?\n'],
  ['a date', ['--from', '2026-02-30'], 2, '"2026-02-30" is no date'],
  ['a range', ['--from', '2026-01-02', '--to', '2026-01-01'], 1, 'The range ends before it begins'],
  ['an operator', ['--operator', 'acne'], 1, 'There is no operator acne. Did you mean acme?'],
  ['a directory', ['--out', '/nowhere/report.html'], 2, 'cannot be written'],
])('%s that is wrong is refused with its remedy', async (_, args, expected, words) => {
  const { code, output } = await run(world.readerUrl, ...args);
  expect(code).toBe(expected);
  expect(output).toContain(words);
});

test('a refused report leaves no file, and an earlier one stays', async () => {
  writeFileSync(pathOf('earlier.html'), 'earlier');
  const { code } = await run(world.readerUrl, '--operator', 'acne', '--out', pathOf('earlier.html'));
  expect([code, readFileSync(pathOf('earlier.html'), 'utf8')]).toEqual([1, 'earlier']);
  expect(readdirSync(directory).filter((name) => name.endsWith('.part'))).toEqual([]);
});

test('a store without anything gives a report', async () => {
  const store = await freshStore();
  try {
    expect((await run(store.url, '--out', pathOf('nothing.html'))).code).toBe(0);
  } finally {
    await store.close();
  }
});

test('the page says that nothing was decided, and which part was too slow', () => {
  expect(readFileSync(pathOf('empty.html'), 'utf8')).toContain('No event was decided in this time.');
  const report = sampleReport();
  const page = reportPage({ ...report, coverage: { ...report.coverage, too_slow: ['resends'] } });
  expect(page).toContain('The database did not answer within 60 s');
});

const FILES = ['sample.html', 'empty.html', 'real.html'];
const open = (page: Page, file: string) => page.goto(pathToFileURL(pathOf(file)).href);

describe.each(FILES)('%s', (file) => {
  test('has no script, no address and no style outside of its style sheet', () => {
    const html = readFileSync(pathOf(file), 'utf8');
    expect(html).not.toMatch(/<script|<img|<link|<iframe| style=| on\w+=|https?:\/\/|url\(/i);
    expect(html).toContain('content="default-src &#39;none&#39;; style-src &#39;sha256-');
    expect(html.length).toBeLessThan(1_000_000);
    expect(html).not.toMatch(/player-|>e-1<|>r-1</);
  });

  for (const colorScheme of ['light', 'dark'] as const)
    testInBrowser(
      `is accessible on a ${colorScheme} screen`,
      async ({ page }) => {
        await open(page, file);
        expect(await accessibilityProblems(page)).toEqual([]);
        const background = await page.evaluate('getComputedStyle(document.body).backgroundColor');
        expect(background).toBe(colorScheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(13, 17, 23)');
      },
      { colorScheme },
    );

  testInBrowser(
    'fits a narrow screen, with all of its tables open',
    async ({ page }) => {
      await open(page, file);
      for (const summary of await page.locator('summary').all()) await summary.click();
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
      expect(await accessibilityProblems(page)).toEqual([]);
    },
    { viewport: { width: 360, height: 740 } },
  );
});

testInBrowser('paper is light, and has no links to sections', async ({ page }) => {
  await open(page, 'sample.html');
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(27, 31, 36)');
  expect(await page.locator('nav').isVisible()).toBe(false);
});

testInBrowser('the keyboard reaches the content and each section', async ({ page }) => {
  await open(page, 'sample.html');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  expect(await page.evaluate('document.activeElement?.id')).toBe('content');
  const links = await page.locator('nav a').all();
  for (const link of links)
    expect(await page.locator((await link.getAttribute('href')) ?? '').count()).toBe(1);
  expect(links).toHaveLength(10);
});

testInBrowser('each chart has its numbers as a table', async ({ page }) => {
  await open(page, 'sample.html');
  for (const figure of await page.locator('figure').all()) {
    const id = await figure.locator('figcaption').getAttribute('id');
    const isRanked = (await figure.locator('svg.ranked').count()) > 0;
    if (!isRanked) expect([id, await figure.locator('details table tbody tr').count()]).toEqual([id, 30]);
  }
  expect(await page.locator('figure').count()).toBeGreaterThanOrEqual(9);
});

testInBrowser('names of hostile senders are text', async ({ page }) => {
  const report = sampleReport();
  const [game] = report.games;
  if (game === undefined) throw new Error('the sample has no game');
  const games = HOSTILE_IDS.map((id) => ({ ...game, game: id }));
  writeFileSync(pathOf('hostile.html'), reportPage({ ...report, games }));
  await open(page, 'hostile.html');
  expect(await page.locator('script, img, h1:has-text("owned")').count()).toBe(0);
  expect(await page.locator('#refunds td').first().textContent()).toBe(HOSTILE_IDS[0]);
});
