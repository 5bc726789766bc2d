/** The page that checks events, in a real Chromium: it agrees with `check`, and people can use it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { makeCheckPage } from '../../dev/check-page';
import { until } from '../../dev/servers/deadline';
import { projectRoot as ROOT } from '../../dev/servers/download';
import { check } from '../../src/commands/operators/check';
import { isObject } from '../../src/lib/json';
import { accessibilityProblems, testInBrowser } from '../support/browser';
import { aBet, aDeposit } from '../support/builders';

const CHECKED_WITHIN_MS = 60_000;
const EXAMPLES = join(ROOT, 'schemas', 'examples');
const REFERENCE = join(EXAMPLES, 'reference.yaml');
const directory = mkdtempSync(join(tmpdir(), 'promo-check-page-'));
const PAGE = join(directory, 'check.html');
const address = pathToFileURL(PAGE).href;
let html = '';

beforeAll(async () => {
  html = await makeCheckPage(ROOT);
  writeFileSync(PAGE, html);
});
afterAll(() => rmSync(directory, { recursive: true }));
afterEach(() => jest.restoreAllMocks());

interface Example {
  readonly file: string;
  readonly connection: string;
  readonly verdict: string;
  readonly reason: string | null;
  readonly after: readonly string[];
}

const index: unknown = JSON.parse(readFileSync(join(EXAMPLES, 'index.json'), 'utf8'));
const examples: readonly Example[] = (
  isObject(index) && Array.isArray(index.examples) ? index.examples : []
).map(({ file, connection, verdict, reason, after = [] }) => ({ file, connection, verdict, reason, after }));

/** The lines of `check --json`, and its summary without the name of the file. */
async function checked(
  content: Buffer,
  connection: string | undefined,
): Promise<{ lines: string; summary: string }> {
  const file = join(directory, 'events');
  writeFileSync(file, content);
  let [lines, summary] = ['', ''];
  jest.spyOn(console, 'error').mockImplementation(() => undefined);
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    lines += String(text);
    return true;
  });
  jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
    summary += String(text);
    return true;
  });
  const rules = connection === undefined ? undefined : { reference: REFERENCE, connection };
  await check({ file, json: true, rules }, new AbortController().signal);
  jest.restoreAllMocks();
  return { lines, summary: summary.split('\n')[0]?.slice(file.length + 2) ?? '' };
}

const shown = async (page: Page) => ({
  lines: await page.locator('#lines').inputValue(),
  summary: (await page.locator('#summary').textContent()) ?? '',
});

/** Types or pastes, and waits for the check, which begins after a pause. */
async function paste(page: Page, text: string): Promise<void> {
  const before = await page.locator('#lines').inputValue();
  await page.getByLabel('Paste one event').fill(text);
  await until('the check ends', CHECKED_WITHIN_MS, async () => {
    return (await page.locator('#lines').inputValue()) !== before;
  });
}

/** The file of an example, or one event a line with those before it, as the page has it. */
function bytesOf({ file, after }: Example): Buffer {
  const own = readFileSync(join(EXAMPLES, file));
  if (after.length === 0) return own;
  const lines = [...after, file].map((name) =>
    JSON.stringify(JSON.parse(readFileSync(join(EXAMPLES, name), 'utf8'))),
  );
  return Buffer.from(lines.map((line) => `${line}\n`).join(''));
}

testInBrowser(
  'every example gets the lines and the summary of check --json, by one click',
  async ({ page }) => {
    await page.goto(address);
    await page.evaluate(`document.querySelectorAll('details').forEach((each) => { each.open = true; })`);
    expect(await page.locator('#examples button').count()).toBe(examples.length);
    const noted: string[] = [];
    for (const example of examples) {
      await page.locator('#examples button').filter({ hasText: example.file }).first().click();
      expect([example.file, await shown(page)]).toEqual([
        example.file,
        await checked(bytesOf(example), example.connection),
      ]);
      expect(await page.locator('#connection').inputValue()).toBe(example.connection);
      const { verdict, reason } = example;
      const whole = reason === null ? verdict : `${verdict}/${reason}`;
      const place = page.locator('.finding').last().locator('.verdict');
      // A check knows no events of before, and reads a file of many events. The note has the verdict of the
      // service.
      const note = await page.locator('#source').textContent();
      const isNoted = note?.includes(` is ${whole}:`) || note?.includes(` answers ${whole}.`);
      expect([example.file, isNoted ? whole : await place.textContent()]).toEqual([example.file, whole]);
      if (isNoted) noted.push(example.file);
    }
    expect(noted).toEqual([
      'invalid/no_idempotency_key-array.json',
      'invalid/no_idempotency_key-batch.json',
      'invalid/no_idempotency_key-byte-order-mark.json',
      'skipped/round_refunded-bet.json',
      'skipped/round_refunded-settled.json',
    ]);
  },
);

const FILE =
  /```json\n([\s\S]+?)```/.exec(readFileSync(join(ROOT, 'docs', 'operators', 'files.md'), 'utf8'))?.[1] ?? '';

testInBrowser(
  'pasted events get a verdict, the place of each fault, its remedy and the amount in minor units',
  async ({ page }) => {
    await page.goto(address);
    await paste(page, FILE);
    expect(await shown(page)).toEqual(await checked(Buffer.from(FILE), undefined));
    await page.getByLabel('Brand and game rules').selectOption('acme-stream');
    expect(await shown(page)).toEqual(await checked(Buffer.from(FILE), 'acme-stream'));
    const [first, , , , , , below, wrong, again] = await page.locator('.finding').allInnerTexts();
    const plain = (text = '') => text.replaceAll(/\s+/g, ' ').trim();
    expect(plain(first)).toBe(
      'Line 1 accepted event_id e-1 kind bet amount 10.50 EUR = 1050 minor units occurred_at 2026-11-21T12:00:00Z',
    );
    expect(plain(below)).toContain(
      "skipped/below_min_bet /amount: the bet of 0.05 EUR is below the brand's minimum of 0.10 EUR. Remedy: Nothing to do.",
    );
    expect(plain(wrong)).toContain(
      'Line 8 rejected/bad_amount /amount: amount "1,50" is not a plain decimal such as "10.50". Remedy: Send the exact amount as a decimal string, with a new event_id. /brand: ',
    );
    expect(plain(again)).toContain('Line 9 duplicate /event_id: line 1 is the same event. Nothing to do.');
  },
);

testInBrowser('amounts of other currencies, and a time with a zone and a fraction', async ({ page }) => {
  await page.goto(address);
  const events = [
    aDeposit({ amount: '1000', currency: 'JPY' }),
    aDeposit({ amount: '0.00000001', currency: 'btc', occurred_at: '2026-11-21T12:00:00.25+01:00' }),
    aBet({ amount: '0', occurred_at: '1969-12-31T23:59:59.5Z' }),
  ];
  await paste(page, events.map((event) => JSON.stringify(event)).join('\n'));
  const texts = (await page.locator('.finding').allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' '));
  expect(texts[0]).toContain('amount 1000 JPY = 1000 minor units');
  expect(texts[1]).toContain('amount 0.00000001 BTC = 1 minor unit occurred_at 2026-11-21T11:00:00.250000Z');
  expect(texts[2]).toContain('amount 0.00 EUR = 0 minor units occurred_at 1969-12-31T23:59:59.500000Z');
});

testInBrowser('a file is checked by its bytes, also where the text cannot show them', async ({ page }) => {
  await page.goto(address);
  const latin1 = Buffer.from(JSON.stringify(aBet({ player_ref: 'Jos\u00e9' })), 'latin1');
  await page
    .getByLabel('Or open a file')
    .setInputFiles({ name: 'latin-1.json', mimeType: '', buffer: latin1 });
  await page.getByText('The file latin-1.json.').waitFor();
  expect(await shown(page)).toEqual(await checked(latin1, undefined));
  expect((await shown(page)).lines).toContain('is not valid UTF-8 at byte');
  expect(await page.locator('#source').textContent()).toContain(
    'The file latin-1.json. The text cannot show its bytes',
  );
  // Windows ends its lines with CR and LF, of which a text field keeps LF alone.
  const windows = Buffer.from(FILE.replaceAll('\n', '\r\n'));
  await page
    .getByLabel('Or open a file')
    .setInputFiles({ name: 'windows.ndjson', mimeType: '', buffer: windows });
  await page.getByText('The file windows.ndjson.').waitFor();
  expect(await shown(page)).toEqual(await checked(windows, undefined));
  await page.getByRole('button', { name: 'Clear' }).click();
  expect(await shown(page)).toEqual({ lines: '', summary: 'No events yet.' });
});

testInBrowser(
  'a file that is UTF-16 is refused once, with the command that converts it',
  async ({ page }) => {
    await page.goto(address);
    await paste(page, FILE);
    const buffer = Buffer.from(FILE, 'utf16le');
    await page.getByLabel('Or open a file').setInputFiles({ name: 'export.ndjson', mimeType: '', buffer });
    await page
      .getByText(
        'The file export.ndjson is UTF-16, and must be UTF-8. Convert it: iconv -f UTF-16LE -t UTF-8 FILE',
      )
      .waitFor();
    expect(await shown(page)).toEqual({ lines: '', summary: 'No events yet.' });
  },
);

testInBrowser(
  'a file of 20,000 events is counted as by check, and the first events are listed',
  async ({ page }) => {
    await page.goto(address);
    const lines = Array.from({ length: 20_000 }, (_, n) =>
      JSON.stringify(aBet({ event_id: `e-${n % 19_000}`, amount: n % 100 === 99 ? '1,00' : '1.00' })),
    );
    const content = Buffer.from(`${lines.join('\n')}\n`);
    const file = join(directory, 'many.ndjson');
    writeFileSync(file, content);
    await page.getByLabel('Or open a file').setInputFiles(file);
    await page.locator('#notes').getByText('events are listed').waitFor();
    const { summary, lines: all } = await checked(content, undefined);
    expect((await shown(page)).summary).toBe(summary);
    const problems = all.split('\n').filter((line) => line !== '' && !line.includes('"accepted"'));
    expect(problems.length).toBeGreaterThan(1_000);
    expect(await page.locator('.finding.rejected, .finding.duplicate').count()).toBe(500);
    expect(await page.getByRole('button', { name: 'Line 1', exact: true }).count()).toBe(0);
  },
);

testInBrowser('own reference data judges, and its fault is named', async ({ page }) => {
  await page.goto(address);
  await paste(page, FILE);
  const buffer = readFileSync(REFERENCE);
  const field = page.getByLabel('Your own reference data');
  await field.setInputFiles({ name: 'ours.yaml', mimeType: '', buffer });
  await page.getByText('ours.yaml: choose one of its connections.').waitFor();
  await page.getByLabel('Brand and game rules').selectOption('acme-hook');
  expect(await shown(page)).toEqual(await checked(Buffer.from(FILE), 'acme-hook'));
  const wrong = Buffer.from(buffer.toString().replace('transport: kafka', 'transport: pigeon'));
  await field.setInputFiles({ name: 'wrong.yaml', mimeType: '', buffer: wrong });
  await page.getByText(/^wrong\.yaml:17:39: .*"pigeon" is unknown here/).waitFor();
});

testInBrowser('foreign text is shown, and never becomes a part of the page', async ({ page }) => {
  await page.goto(address);
  const mark = '<img src=x onerror="document.title=1"><b id=injected>';
  await paste(page, JSON.stringify(aBet({ event_id: mark, kind: mark, brand: `${mark}\u202e` })));
  expect(await page.locator('#injected, #findings img').count()).toBe(0);
  expect(await page.locator('.finding').textContent()).toContain(mark);
  expect(await page.title()).toBe('Check promotion events');
});

testInBrowser('the page runs no text as code, and can send nothing', async ({ page, expectProblem }) => {
  await page.goto(address);
  expect(html).not.toMatch(/new Function|\beval\(|innerHTML|not in the page/);
  expect(await page.evaluate(`fetch('https://example.com').then(() => 'sent', () => 'refused')`)).toBe(
    'refused',
  );
  expect(
    await page.evaluate(`new Promise((resolve) => { const image = new Image(); image.onerror = () => resolve('refused');
      image.onload = () => resolve('loaded'); image.src = 'https://example.com/'; })`),
  ).toBe('refused');
  expectProblem(/^console: .*violates the .*Content Security Policy/);
});

testInBrowser('the keyboard alone reaches every part', async ({ page }) => {
  await page.goto(address);
  const focused = () =>
    page.evaluate(`document.activeElement.id || document.activeElement.textContent.trim()`);
  await page.keyboard.press('Tab');
  expect(await focused()).toBe('Skip to the results');
  await page.keyboard.press('Enter');
  expect(await focused()).toBe('results-heading');
  await page.goto(address);
  const order: unknown[] = [];
  for (let step = 0; step < 8; step++) {
    await page.keyboard.press('Tab');
    order.push(await focused());
  }
  expect(order).toEqual([
    ...[
      'Skip to the results',
      'events',
      'file',
      'clear',
      'connection',
      'reference',
      'Examples',
      'accepted (24)',
    ],
  ]);
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  expect(await page.locator('#source').textContent()).toBe('valid/bet.json: A stake is placed.');
  expect(await page.locator('.verdict').allInnerTexts()).toEqual(['accepted']);
  await paste(page, FILE);
  await page.getByRole('button', { name: 'Line 8' }).focus();
  await page.keyboard.press('Space');
  expect(await focused()).toBe('events');
  expect(
    await page.evaluate(
      `(({ value, selectionStart, selectionEnd }) => value.slice(selectionStart, selectionEnd))(document.activeElement)`,
    ),
  ).toBe(FILE.split('\n')[7]);
});

testInBrowser('accepted events can be hidden', async ({ page }) => {
  await page.goto(address);
  expect(await page.getByLabel('Hide accepted events').isVisible()).toBe(false);
  await paste(page, FILE);
  await page.getByLabel('Hide accepted events').check();
  expect(await page.locator('.verdict').allInnerTexts()).toEqual(['rejected/bad_amount', 'duplicate']);
});

testInBrowser('an address with the name of an example opens it', async ({ page }) => {
  await page.goto(`${address}#invalid/bad_amount-comma.json`);
  expect(await page.locator('.verdict').allInnerTexts()).toEqual(['rejected/bad_amount']);
});

const WINDOWS = {
  'in a light window': {},
  'in a dark window': { colorScheme: 'dark' },
  'in a narrow window': { viewport: { width: 320, height: 640 } },
  'in high contrast': { contrast: 'more', forcedColors: 'active' },
} as const;

for (const [name, options] of Object.entries(WINDOWS))
  testInBrowser(
    `the page ${name} has no problem of accessibility, and no text beyond its edge`,
    async ({ page }) => {
      await page.goto(address);
      expect(await accessibilityProblems(page)).toEqual([]);
      await page.getByLabel('Brand and game rules').selectOption('acme-stream');
      await paste(page, FILE);
      await page.evaluate(`document.querySelectorAll('details').forEach((each) => { each.open = true; })`);
      expect(await accessibilityProblems(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      for (const id of ['summary', 'source', 'reference-note'])
        expect(await page.locator(`#${id}`).getAttribute('role')).toBe('status');
    },
    options,
  );
