/** The reader of wallet profiles: against their schema by value, and without each line of an example. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../dev/servers/download';
import { parseProfile } from '../../src/wallet/profile-file';
import { FULL, faultsOf, isValid, leaves, mappings, withValue } from '../support/wallet-profile';

test('the schema marks no value as wrong that the reader takes', () => {
  const values: readonly unknown[] = [
    ...['', ' ', 'a b', 'a.b', '/a', '/a?b', 'http://h/', 'https://h', 'none', 'hex', 'POST', '{{body}}'],
    ...[-1, 0, 1, 18, 19, 20_000, 20_001, 3_600, 3_601, 1.5, true, null, [], {}, ['a'], { a: 'b' }],
  ];
  // One of the actions and one of the players: all have the same keys, as the tests above show.
  const paths = [...leaves, ...mappings.map(([path]) => path)].filter(
    ([top, name, more]) =>
      top !== undefined &&
      (more === undefined ||
        ['debit', 'usual'].includes(name ?? '') ||
        !['actions', 'players'].includes(top)),
  );
  let accepted = 0;
  for (const path of paths) {
    for (const value of values) {
      const changed = withValue(FULL, path, value);
      if (faultsOf(changed).length > 0) continue;
      accepted++;
      if (!isValid(changed)) throw new Error(`${path.join('.')}: ${JSON.stringify(value)}`);
    }
  }
  expect(accepted).toBeGreaterThan(200);
});

test('every fault has a remedy, whatever line the file lacks', () => {
  const lines = readFileSync(join(projectRoot, 'schemas/examples/wallet.yaml'), 'utf8').split('\n');
  for (let i = 0; i < lines.length; i++) {
    const parsed = parseProfile(lines.filter((_, at) => at !== i).join('\n'), 'wallet.yaml');
    for (const fault of 'faults' in parsed ? parsed.faults : []) {
      expect(fault.remedy).not.toBe('');
      expect(fault.line).toBeGreaterThan(0);
    }
  }
});
