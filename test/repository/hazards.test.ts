/** The table of hazards in test/README.md names existing tests. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const TESTS = join(__dirname, '..');
const README = readFileSync(join(TESTS, 'README.md'), 'utf8');
const section = /## Hazards of the Kafka client\n([\s\S]*?)\n## /.exec(README)?.[1] ?? '';
const ROW = /^\| (.+?)\s+\| `(.+)`: (.+?)\s+\|$/;
const rows = section
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| (hazard|---)/.test(line))
  .map((line): [hazard: string, file: string, title: string] => {
    const [, hazard, file, title] = ROW.exec(line) ?? [];
    if (hazard === undefined || file === undefined || title === undefined)
      throw new Error(`not "| hazard | \`file\`: title |": ${line}`);
    return [hazard, file, title];
  });

it('has the known hazards', () => {
  expect(rows.length).toBeGreaterThanOrEqual(20);
});

it.each(rows)('%s: %s', (_, file, title) => {
  const text = readFileSync(join(TESTS, file), 'utf8');
  const behind = text.split(title).slice(1);
  // At most its rules, and then its quotation mark.
  expect(behind.filter((rest) => /^(\s*\[[^\]]*\])*['`]/.test(rest))).not.toEqual([]);
});
