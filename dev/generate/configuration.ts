/** docs/configuration.md: every setting, and which command reads it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SETTINGS, type SettingName } from '../../src/config';
import { argumentOf, isEnvironment, isNode, nameOf, parseSource, type SyntaxNode, textOf } from '../syntax';
import { code, codes, document, generatedFrom, paragraph, table } from './markdown';

export function renderConfiguration(command: string, root: string): string {
  const readers = settingsByCommand(join(root, 'src', 'commands'));
  const names = Object.keys(SETTINGS).filter(isSetting);
  return document([
    generatedFrom('SETTINGS in src/config.ts and the readers in src/commands', command),
    '# Configuration',
    paragraph(
      'All settings are environment variables, and a variable that is empty counts as absent. Each command reads the settings that name it',
      'in the last column and needs no others.',
    ),
    table(
      ['name', 'required or default', 'meaning', 'example', 'read by'],
      names.map((name) => {
        const { describe, example } = SETTINGS[name];
        const commands = [...readers].filter(([, read]) => read.has(name)).map(([reader]) => reader);
        return [
          code(name),
          defaultOf(name),
          describe,
          code(example),
          commands.length === 0 ? 'no command yet' : codes(commands),
        ];
      }),
    ),
    '## Mistakes',
    paragraph(
      'A command looks at all of its settings before it connects to anything. If any of them cannot be used it prints every fault, a line',
      'each with what to do, and exits with 2. Passwords are never printed.',
    ),
    paragraph(
      'A misspelt setting would be ignored in silence, so whatever begins like one of ours and is none is refused as well: `KAFKA_BROKER`',
      'for want of an S stops the start instead of leaving a default in force. That holds for the prefixes `KAFKA_`, `DATABASE_`,',
      '`SCHEMA_REGISTRY_`, `VERDICT_`, `DEAD_LETTER_` and `WEBHOOK_`. The variables that Kubernetes sets in every pod for the services',
      'beside it (for a service named kafka: `KAFKA_SERVICE_HOST`, `KAFKA_PORT_9092_TCP_ADDR` and their like) are known and let be.',
    ),
  ]);
}

function isSetting(name: string): name is SettingName {
  return name in SETTINGS;
}

function defaultOf(name: SettingName): string {
  const { fallback, required } = SETTINGS[name];
  if (required) return '**required**';
  return fallback === undefined ? 'absent' : code(fallback);
}

/**
 * The settings that each command asks `readConfig` for, as its source says: a command cannot read a setting without this table
 * saying so.
 *
 * @param directory of the commands, a file each
 * @throws where a call of `readConfig` names its settings in a way that is not read here
 */
export function settingsByCommand(directory: string): Map<string, ReadonlySet<string>> {
  const byCommand = new Map<string, ReadonlySet<string>>();
  for (const file of readdirSync(directory).sort()) {
    if (!file.endsWith('.ts')) continue;
    const { nodes } = parseSource(readFileSync(join(directory, file), 'utf8'));
    const lists = constantLists(nodes);
    const read = nodes.filter(isReading).flatMap((call) => {
      const argument = argumentOf(call, 1);
      const names = listOf(argument) ?? lists.get(nameOf(argument) ?? '');
      if (names === undefined)
        throw new Error(
          `src/commands/${file}: write the settings of readConfig as a list, there or as a constant`,
        );
      return names;
    });
    if (read.length > 0) byCommand.set(file.replace(/\.ts$/, ''), new Set(read));
  }
  return byCommand;
}

function isReading(node: SyntaxNode): boolean {
  return (
    node.type === 'CallExpression' &&
    nameOf(node.callee) === 'readConfig' &&
    isEnvironment(argumentOf(node, 0))
  );
}

/** `const NAME = ['A', 'B']` by name. */
function constantLists(nodes: readonly SyntaxNode[]): Map<string, readonly string[]> {
  const lists = new Map<string, readonly string[]>();
  for (const { type, id, init } of nodes) {
    const list = type === 'VariableDeclarator' ? listOf(init) : undefined;
    const name = nameOf(id);
    if (name !== undefined && list !== undefined) lists.set(name, list);
  }
  return lists;
}

/** The texts of an array literal, whatever `as const` or `satisfies` stands behind it. */
function listOf(value: unknown): readonly string[] | undefined {
  if (!isNode(value)) return undefined;
  if (value.type !== 'ArrayExpression')
    return isNode(value.expression) ? listOf(value.expression) : undefined;
  const elements: readonly unknown[] = Array.isArray(value.elements) ? value.elements : [];
  const texts = elements.map((element) => textOf(isNode(element) ? element.expression : undefined));
  return texts.every((text) => text !== undefined) ? texts : undefined;
}
