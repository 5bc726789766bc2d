import { readFileSync } from 'node:fs';

/** What the command is started with, by its first line: variables, and options of Node. */
export function productStart(cli: string): {
  readonly environment: Readonly<Record<string, string>>;
  readonly nodeOptions: readonly string[];
} {
  const [firstLine = ''] = readFileSync(cli, 'utf8').split('\n', 1);
  const variables = firstLine.matchAll(/ (\w+)=(\S*)/g);
  return {
    environment: Object.fromEntries(Array.from(variables, ([, name = '', value = '']) => [name, value])),
    nodeOptions: firstLine.split(' ').filter((word) => word.startsWith('--')),
  };
}
