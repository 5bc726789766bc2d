/** The settings that the sources of the commands read, by their calls of `readConfig`. */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { argumentOf, isEnvironment, nameOf, parseSource, type SyntaxNode, textOf } from '../../dev/syntax';
import * as commandSettings from '../../src/commands/shared/settings';
import { GROUPS, type GroupName, SETTINGS, type SettingName, settingsOf } from '../../src/config/config';
import { isObject } from '../../src/lib/json';

/** The named lists. */
const LISTS = new Map<string, readonly string[]>(Object.entries(commandSettings));

/**
 * The settings that each file requests from `readConfig`.
 *
 * @param directory of a room of commands
 * @throws where a call of `readConfig` names its settings in a form that this function cannot read
 */
export function settingsByFile(directory: string): Map<string, ReadonlySet<string>> {
  const byFile = new Map<string, ReadonlySet<string>>();
  for (const file of readdirSync(directory).sort()) {
    if (!file.endsWith('.ts')) continue;
    const { nodes } = parseSource(readFileSync(join(directory, file), 'utf8'));
    const read = nodes.filter(isReading).flatMap((call) => {
      const argument = argumentOf(call, 1);
      const names = listOf(argument) ?? LISTS.get(nameOf(argument) ?? '');
      if (names === undefined)
        throw new Error(
          `${join(basename(directory), file)}: write the settings of readConfig as a list, or name one of src/commands/shared/settings.ts`,
        );
      return names;
    });
    if (read.length > 0) byFile.set(file.replace(/\.ts$/, ''), new Set(read.flatMap(membersOf)));
  }
  return byFile;
}

/** Replaces a group by its settings. */
function membersOf(name: string): readonly string[] {
  return isKnown(name) ? settingsOf(name) : [name];
}

function isKnown(name: string): name is SettingName | GroupName {
  return name in SETTINGS || name in GROUPS;
}

function isReading(node: SyntaxNode): boolean {
  return (
    node.type === 'CallExpression' &&
    nameOf(node.callee) === 'readConfig' &&
    isEnvironment(argumentOf(node, 0))
  );
}

/** The texts of an array literal, even where `as const` or `satisfies` follows it. */
function listOf(value: unknown): readonly string[] | undefined {
  if (!isObject(value)) return undefined;
  if (value.type !== 'ArrayExpression')
    return isObject(value.expression) ? listOf(value.expression) : undefined;
  const elements: readonly unknown[] = Array.isArray(value.elements) ? value.elements : [];
  const texts = elements.map((element) => textOf(isObject(element) ? element.expression : undefined));
  return texts.every((text) => text !== undefined) ? texts : undefined;
}
