/** The Chromium of tests: fetched by its digest, and able to fail a page. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findBrowser } from '../../dev/browser';
import { accessibilityProblems, testInBrowser } from '../support/browser';

const directory = mkdtempSync(join(tmpdir(), 'promo-browser-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** An npm that packs this instead of the package. */
function fakeNpm(script: string): NodeJS.ProcessEnv {
  writeFileSync(join(directory, 'npm'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return { PATH: `${directory}:/nowhere`, XDG_CACHE_HOME: join(directory, 'cache') };
}

const onLinux = process.platform === 'linux' && process.arch === 'x64' ? test : test.skip;

onLinux.each([
  ['echo other > sparticuz-chromium.tgz', /: the digest of sparticuz-chromium.tgz is .+ instead of jiGWqSv/],
  ['echo E404 not found >&2; exit 1', /: .*npm pack: exit code 1: E404 not found/],
])('a browser is not used, and nothing of it is kept, where npm does: %s', (script, problem) => {
  const found = findBrowser(fakeNpm(script), () => {});
  expect('problem' in found && found.problem).toMatch(problem);
  expect(readdirSync(join(directory, 'cache', 'promo-intake'))).toEqual([]);
});

test('CHROMIUM names a browser, and a missing one is a problem', () => {
  const named = { CHROMIUM: process.execPath };
  expect(findBrowser(named, () => {})).toEqual({ path: process.execPath, environment: {} });
  expect(findBrowser({ CHROMIUM: '/nowhere/chromium' }, () => {})).toEqual({
    problem: 'CHROMIUM names /nowhere/chromium, which does not exist',
  });
});

const page = (body: string): string =>
  `<!doctype html><html lang="en"><head><title>A page</title>
  <meta http-equiv="content-security-policy" content="default-src 'none'"></head><body><main>${body}</main></body></html>`;

testInBrowser(
  'accessibility problems of a page are found, also below a content security policy',
  async (visit) => {
    await visit.page.setContent(page('<h1>Events</h1><label>Name <input></label>'));
    expect(await accessibilityProblems(visit.page)).toEqual([]);
    await visit.page.setContent(page('<h1>Events</h1><input>'));
    expect(await accessibilityProblems(visit.page)).toEqual([
      expect.stringMatching(/^label: Form elements must have labels: <input>/),
    ]);
  },
);
