/** The page of `try` in a real browser: events as they come, and hostile texts. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { until } from '../../dev/servers/deadline';
import { trySecretOf } from '../../src/try/example';
import { accessibilityProblems, testInBrowser } from '../support/browser';
import { aBet } from '../support/builders';
import { senderTo } from '../support/webhook';
import { RunningCommand } from '../support/worker';

const READY_DEADLINE_MS = 60_000;
const SHOWN_DEADLINE_MS = 60_000;

let scratch: string;
let command: RunningCommand;
let address: string;
let send: ReturnType<typeof senderTo>;
beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'try-page-'));
  if (process.getuid?.() === 0) chmodSync(scratch, 0o755);
  command = new RunningCommand(['try', '--port', '0'], { TMPDIR: scratch });
  await until('it is ready', READY_DEADLINE_MS, () => command.output().includes('try is ready'));
  address = /http:\/\/127\.0\.0\.1:\d+/.exec(command.output())?.[0] ?? '';
  send = senderTo(Number(new URL(address).port), 'acme-hook', trySecretOf('acme-hook'));
});
afterAll(async () => {
  await command.stop();
  rmSync(scratch, { recursive: true, force: true });
});

const rowsOf = (page: Page) => page.locator('#events tr');
const countsAre = (page: Page, text: string) =>
  until(`the page shows ${text}`, SHOWN_DEADLINE_MS, async () =>
    ((await page.locator('#counts').textContent()) ?? '').startsWith(text),
  );

testInBrowser('shows events as they come, filters them, and forgets them', async ({ page, allow }) => {
  allow(address);
  await page.goto(`${address}/`);
  expect(page.url()).toBe(`${address}/try`);
  await countsAre(page, '0 accepted, 0 rejected');
  await send({ events: [aBet({ event_id: 'good' }), aBet({ event_id: 'bad', amount: '1,50' })] });
  await send('{}', { headers: { 'webhook-signature': 'v1,none' } });
  await countsAre(page, '1 accepted, 1 rejected, 0 skipped, 0 duplicate, 1 requests refused');
  expect(await rowsOf(page).count()).toBe(2);
  const [last] = await rowsOf(page).allTextContents();
  for (const part of ['rejected', 'bad_amount', '/amount: ', 'decimal']) expect(last).toContain(part);
  expect(await page.locator('#refusals').textContent()).toContain('401 signature_invalid: ');

  await page.getByLabel('Show').selectOption('accepted');
  await until('only the accepted event is shown', SHOWN_DEADLINE_MS, async () => {
    const shown = await rowsOf(page).allTextContents();
    return shown.length === 1 && shown[0]?.includes('good') === true;
  });
  await page.getByText('bet good of 10.50 EUR').click();
  expect(await page.locator('#events pre').textContent()).toContain('"event_id": "good"');
  expect(await accessibilityProblems(page)).toEqual([]);

  await page.getByRole('button', { name: 'Forget all events' }).press('Enter');
  await countsAre(page, '0 accepted, 0 rejected');
  expect(await rowsOf(page).count()).toBe(0);
  await send(aBet({ event_id: 'good' }));
  await countsAre(page, '1 accepted');
  expect(await rowsOf(page).count()).toBe(1);
});

testInBrowser('shows hostile texts as text, and runs none of them', async ({ page, allow }) => {
  allow(address);
  await page.goto(`${address}/try`);
  const hostile = '<img src=x onerror="document.title=1"></td><script>document.title=2</script>';
  await send({ events: [aBet({ event_id: hostile, amount: hostile }), aBet({ event_id: `${hostile}2` })] });
  await send({ [hostile]: 1 }, { path: `/v1/events/${encodeURIComponent(hostile)}` });
  await until('the texts are shown', SHOWN_DEADLINE_MS, async () =>
    (await rowsOf(page).allTextContents()).some((text) => text.includes(hostile)),
  );
  expect(await page.locator('#events img, #events script, #refusals img').count()).toBe(0);
  expect(await page.title()).toBe('promo-intake try');
});

testInBrowser('keeps the latest rows alone, over thousands of events', async ({ page, allow }) => {
  allow(address);
  await page.goto(`${address}/try`);
  for (let request = 0; request < 6; request++)
    await send({
      events: Array.from({ length: 500 }, (_, place) => aBet({ event_id: `many-${request}-${place}` })),
    });
  await until('the last event is shown', SHOWN_DEADLINE_MS, async () =>
    ((await rowsOf(page).first().textContent()) ?? '').includes('many-5-499'),
  );
  expect(await rowsOf(page).count()).toBe(200);
});
