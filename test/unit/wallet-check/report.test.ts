/** The JUnit report is well-formed, and has the elements and attributes that Jenkins and GitLab read. */
import fc from 'fast-check';
import { junitReport } from '../../../src/wallet-check/report';
import type { ScenarioResult } from '../../../src/wallet-check/runner';
import { anyCharacter } from '../../support/texts';

/** The elements of the common schema that a report may have: their parents and their attributes. */
const FORM: Readonly<
  Record<string, { readonly in: string; readonly needs: string[]; readonly may: string[] }>
> = {
  testsuites: { in: '', needs: [], may: ['name', 'time', 'tests', 'failures', 'errors'] },
  testsuite: {
    in: 'testsuites',
    needs: ['name', 'tests', 'failures', 'errors'],
    may: ['skipped', 'time', 'timestamp', 'hostname'],
  },
  testcase: { in: 'testsuite', needs: ['name'], may: ['classname', 'time'] },
  failure: { in: 'testcase', needs: [], may: ['message', 'type'] },
  skipped: { in: 'testcase', needs: [], may: ['message', 'type'] },
};
/** A text or a value: no markup, and `&` only as a reference. */
const TEXT = /(?:[^<>&"]|&(?:amp|lt|gt|quot);)*/u.source;
const TAG = new RegExp(`<(/?)(\\w+)((?: \\w+="${TEXT}")*)(/?)>|(${TEXT})`, 'uy');
/** The characters that XML 1.0 excludes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the excluded ones
const EXCLUDED = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]|\p{Cs}/u;

interface Element {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** All elements in their order. @throws where the text is not XML of the form */
function readJunit(xml: string): Element[] {
  const [head, body = ''] = xml.split(/(?<=\?>)\n/, 2);
  expect(head).toBe('<?xml version="1.0" encoding="UTF-8"?>');
  expect(EXCLUDED.exec(xml)).toBeNull();
  const [open, elements]: [string[], Element[]] = [[], []];
  for (TAG.lastIndex = 0; TAG.lastIndex < body.length; ) {
    const at = TAG.lastIndex;
    const [whole, close, name = '', given = '', isEmpty] = TAG.exec(body) ?? [];
    if (whole === undefined || whole === '') throw new Error(`no XML: ${body.slice(at, at + 100)}`);
    if (name === '') continue;
    if (close === '/') {
      if (open.pop() !== name) throw new Error(`${name} is closed, and was not open`);
      continue;
    }
    const form = FORM[name];
    if (form?.in !== (open.at(-1) ?? '')) throw new Error(`${name} has the wrong parent`);
    const attributes = Object.fromEntries(
      [...given.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value]),
    );
    const keys = Object.keys(attributes);
    const missing = form.needs.filter((key) => !keys.includes(key));
    const unknown = keys.filter((key) => ![...form.needs, ...form.may].includes(key));
    if (missing.length + unknown.length > 0) throw new Error(`${name} lacks ${missing}, or has ${unknown}`);
    elements.push({ name, attributes });
    if (isEmpty !== '/') open.push(name);
  }
  expect(open).toEqual([]);
  return elements;
}

const anyText = fc.oneof(fc.string({ unit: anyCharacter }), fc.constant('<&"]]>\u0000\uFFFE\uD800'));
const anyResult: fc.Arbitrary<ScenarioResult> = fc.record({
  scenario: fc.record({ id: anyText, rule: anyText, must: anyText, steps: fc.constant([]) }),
  status: fc.constantFrom('passed', 'failed', 'not_run'),
  reason: fc.option(anyText),
  problems: fc.array(fc.record({ sent: fc.option(anyText), came: anyText, expected: anyText })),
  requests: fc.nat(),
  seconds: fc.double({ min: 0, max: 4_000, noNaN: true }),
});

test('a JUnit report has one test case a result, whatever texts a wallet sends', () => {
  fc.assert(
    fc.property(fc.array(anyResult, { maxLength: 5 }), (results) => {
      const elements = readJunit(junitReport(results));
      const count = (name: string) => elements.filter((element) => element.name === name).length;
      const [, suite] = elements;
      expect(count('testcase')).toBe(results.length);
      expect(suite?.attributes).toMatchObject({
        tests: String(results.length),
        errors: '0',
        failures: String(count('failure')),
        skipped: String(count('skipped')),
      });
      const times = elements.flatMap(({ attributes: { time } }) => time ?? []);
      expect(times.filter((time) => !/^\d+\.\d{3}$/.test(time))).toEqual([]);
    }),
    { numRuns: 100 },
  );
});
