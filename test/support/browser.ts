/**
 * Tests of pages in a real Chromium. Where none can be had, a test is skipped and its title says why; with CI
 * set it fails. A page may load nothing from elsewhere, and may report no error.
 */
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { findBrowser } from '../../dev/browser';
import { testWhere } from './needed';

/** A page that hangs fails its step, not the whole file. */
const STEP_DEADLINE_MS = 60_000;
const START_DEADLINE_MS = 60_000;

/**
 * Chromium looks for updates and accounts otherwise, which fails slowly where there is no internet. /dev/shm
 * is small in containers.
 */
const ARGUMENTS = [
  ...['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync', '--disable-dev-shm-usage'],
  ...['--disable-background-networking', '--disable-component-update'],
];

const found = findBrowser(process.env, (line) => process.stderr.write(`browser: ${line}\n`));
let running: Promise<Browser> | undefined;

export interface Visit {
  readonly page: Page;
  /** An origin that the page may load from, beside files and data. */
  readonly allow: (origin: string) => void;
  /** Every problem of the page so far has to be one of these, and there has to be one. */
  readonly expectProblem: (problem: RegExp) => void;
}

/** A test with a page of its own. The options are those of a context of Playwright, such as `viewport`. */
export function testInBrowser(
  name: string,
  work: (visit: Visit) => Promise<void>,
  options: BrowserContextOptions = {},
): void {
  if ('problem' in found && process.env.CI) {
    test(name, () => {
      throw new Error(found.problem);
    });
    return;
  }
  testWhere(found)(name, () => visit(options, work));
}

if (!('problem' in found)) {
  afterAll(async () => {
    await (await running)?.close();
  });
}

async function visit(options: BrowserContextOptions, work: (visit: Visit) => Promise<void>): Promise<void> {
  const context = await (await browser()).newContext({ reducedMotion: 'reduce', ...options });
  const allowed = new Set<string>();
  const problems: string[] = [];
  try {
    context.setDefaultTimeout(STEP_DEADLINE_MS);
    await context.route('**', async (route) => {
      const { protocol, origin } = new URL(route.request().url());
      if (['file:', 'data:', 'blob:'].includes(protocol) || allowed.has(origin)) return route.continue();
      problems.push(`it loads ${route.request().url()}`);
      return route.abort();
    });
    const page = await context.newPage();
    page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(`console: ${message.text()}`);
    });
    await work({
      page,
      allow: (origin) => allowed.add(origin),
      expectProblem(problem) {
        const found = problems.splice(0);
        expect([found.length > 0, found.filter((each) => !problem.test(each))]).toEqual([true, []]);
      },
    });
    expect(problems).toEqual([]);
  } finally {
    await context.close();
  }
}

function browser(): Promise<Browser> {
  if ('problem' in found) throw new Error(found.problem);
  const { path, environment } = found;
  running ??= chromium.launch({
    executablePath: path,
    args: ARGUMENTS,
    env: { ...process.env, ...environment },
    timeout: START_DEADLINE_MS,
  });
  return running;
}

/**
 * What axe-core finds against WCAG 2.2, levels A and AA, and its best practices: a line for each element.
 * Empty where nothing is wrong.
 */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found: unknown = await page.evaluate(
    `axe.run().then(({ violations, passes }) => ({
      ran: passes.length,
      problems: violations.flatMap(({ id, help, nodes }) =>
        nodes.map((node) => id + ': ' + help + ': ' + node.html.slice(0, 120) + ' ' + node.any.map(({ message }) => message).join('; '))),
    }))`,
  );
  if (!isAxeResult(found)) throw new Error(`axe answered ${JSON.stringify(found)}`);
  if (found.ran === 0) throw new Error('axe checked nothing');
  return [...found.problems];
}

interface AxeResult {
  readonly ran: number;
  readonly problems: readonly string[];
}

function isAxeResult(value: unknown): value is AxeResult {
  return (
    typeof value === 'object' &&
    value !== null &&
    'ran' in value &&
    typeof value.ran === 'number' &&
    'problems' in value &&
    Array.isArray(value.problems)
  );
}
