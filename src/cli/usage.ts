/** Reads arguments and prints help, for commands that are described as data. */
import { parseArgs } from 'node:util';
import { type GroupName, SETTINGS, type SettingName, settingsOf } from '../config/config';
import { nearest } from '../lib/did-you-mean';

const HELP_WIDTH = 100;

type FileKind = 'file' | 'file or -';

export interface Option {
  /** The placeholder of the value in the help. Absent if the option has no value. */
  readonly value?: string;
  readonly help: string;
  readonly required?: true;
  readonly choices?: readonly string[];
  /** The value is the name of a file that is read, or standard input where it may be `-`. */
  readonly file?: FileKind;
  /** Another option that must be given too. */
  readonly needs?: string;
}

/** The arguments, checked against the command's options. */
export interface Given {
  /** The FILE; empty if the command takes none. */
  readonly file: string;
  readonly options: ReadonlyMap<string, string>;
}

export interface Command {
  readonly name: string;
  /** The kinds of FILE. Absent if the command takes no FILE. */
  readonly file?: FileKind;
  /** The line of the overview. */
  readonly summary: string;
  readonly purpose: string;
  readonly example: string;
  readonly options: Readonly<Record<string, Option>>;
  readonly settings: readonly (SettingName | GroupName)[];
  readonly exits: Readonly<Record<0 | 1 | 2, string>>;
  /** @returns the exit code */
  readonly run: (given: Given) => Promise<number>;
}

// --- arguments

export type Invocation =
  | { readonly type: 'help'; readonly command: Command | undefined }
  | { readonly type: 'version' }
  | { readonly type: 'run'; readonly command: Command; readonly given: Given }
  | { readonly type: 'wrong'; readonly problem: string; readonly command: Command | undefined };

/** Reads the arguments alone: it does not check whether a FILE exists. */
export function readArguments(argv: readonly string[], commands: readonly Command[]): Invocation {
  const [first] = argv;
  if (first === '--help' || first === '-h') return { type: 'help', command: undefined };
  if (first === '--version') return { type: 'version' };
  const command = commands.find(({ name }) => name === argv.slice(0, wordsOf(name)).join(' '));
  if (command === undefined) return withoutCommand(argv, commands);
  return readCommand(command, argv.slice(wordsOf(command.name)), commands);
}

function wordsOf(name: string): number {
  return name.split(' ').length;
}

function withoutCommand([first, second]: readonly string[], commands: readonly Command[]): Invocation {
  const wrong = (problem: string): Invocation => ({ type: 'wrong', problem, command: undefined });
  const group = first === undefined ? [] : commandsOf(first, commands);
  const [command, ...more] = group;
  if (command !== undefined) {
    if (second === '--help' || second === '-h') return { type: 'help', command };
    if (more.length === 0)
      return {
        type: 'wrong',
        problem: `the command "${first}" is incomplete; did you mean "${command.name}"?`,
        command,
      };
    return wrong(`the command "${first}" is incomplete; ${namesOf(group)}`);
  }
  if (first === undefined) return wrong('a command is missing');
  if (first.startsWith('-'))
    return wrong(`the option ${first} comes before the command; write the command first`);
  return wrong(
    `there is no command "${first}"${didYouMean(
      first,
      commands.map(({ name }) => name),
    )}`,
  );
}

/** The commands whose first word is this one: those of a group, such as promotions. */
function commandsOf(word: string, commands: readonly Command[]): Command[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `));
}

const namesOf = (group: readonly Command[]) =>
  `its commands are ${group.map(({ name }) => `"${name}"`).join(', ')}`;

function readCommand(command: Command, args: readonly string[], commands: readonly Command[]): Invocation {
  const names = Object.keys(command.options);
  const { tokens, positionals } = parseArgs({
    args: [...args],
    strict: false, // Node's own error texts are long, and differ between versions
    allowPositionals: true,
    tokens: true,
    options: Object.fromEntries(
      names.map((name) => [name, { type: command.options[name]?.value ? 'string' : 'boolean' } as const]),
    ),
  });
  const options = new Map<string, string>();
  const problems: string[] = [];
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    if (token.name === 'help' || token.name === 'h') return { type: 'help', command };
    // Otherwise one of the two values would be dropped silently.
    const problem = options.has(token.name)
      ? `${token.rawName} is given twice`
      : optionProblem(command, token, commands);
    if (problem === undefined) options.set(token.name, token.value ?? '');
    else problems.push(problem);
  }
  // A mistyped option often causes further problems, so only the first kind is reported.
  if (problems.length === 0)
    problems.push(...missingOptions(command, options), ...fileProblems(command, positionals, commands));
  if (problems.length > 0) return { type: 'wrong', problem: problems.join('\n'), command };
  return { type: 'run', command, given: { file: positionals[0] ?? '', options } };
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function optionProblem(
  command: Command,
  { name, rawName, value, inlineValue }: OptionToken,
  commands: readonly Command[],
): string | undefined {
  const option = Object.hasOwn(command.options, name) ? command.options[name] : undefined;
  if (option === undefined || rawName !== `--${name}`) return unknownOption(command, rawName, commands);
  if (option.value === undefined)
    return value === undefined ? undefined : `${rawName} takes no value, but was given "${value}"`;
  if (value === undefined || value === '') return `${rawName} needs a value: ${rawName} ${option.value}`;
  // The value may have been left out, so that the next option was read as the value.
  if (!inlineValue && /^-./.test(value))
    return `${rawName} needs a value: ${value.startsWith('--') ? `${rawName} ${option.value}` : `${rawName}=${value}, if that is the value`}`;
  if (option.choices?.includes(value) === false)
    return `${rawName} ${value} is not one of ${option.choices.join(', ')}${didYouMean(value, option.choices)}`;
  return undefined;
}

function unknownOption(command: Command, rawName: string, commands: readonly Command[]): string {
  const known = Object.keys(command.options).map((name) => `--${name}`);
  const owners = commands.filter(({ options }) => Object.hasOwn(options, rawName.slice(2)));
  const hint =
    owners.length > 0
      ? `; it is an option of ${owners.map(({ name }) => name).join(' and ')}`
      : didYouMean(rawName, [...known, '--help']);
  return `${command.name} has no option ${rawName}${hint}`;
}

function missingOptions(command: Command, given: ReadonlyMap<string, string>): string[] {
  return Object.entries(command.options).flatMap(([name, { value, required, needs }]) => {
    if (required && !given.has(name)) return [`${command.name} needs --${name} ${value}`];
    if (needs !== undefined && given.has(name) && !given.has(needs))
      return [`--${name} needs --${needs} as well`];
    return [];
  });
}

function fileProblems(
  { name, file, options }: Command,
  [given, ...more]: readonly string[],
  commands: readonly Command[],
): string[] {
  if (file === undefined) {
    if (given === undefined) return [];
    const group = commandsOf(name, commands);
    if (group.length === 0) return [`${name} takes no FILE, but was given "${given}"`];
    const hint = Object.hasOwn(options, given) ? `did you mean ${name} --${given}?` : namesOf(group);
    return [`there is no command "${name} ${given}"; ${hint}`];
  }
  if (given === undefined || given === '') return [`${name} needs a FILE`];
  if (given === '-' && file === 'file') return [`${name} does not read standard input; name a FILE`];
  return more.length === 0 ? [] : [`${name} takes one FILE, but was given "${more.join('" and "')}" as well`];
}

/** A question with the name that was probably meant. */
function didYouMean(word: string, known: readonly string[]): string {
  const mostEdits = (name: string) =>
    name.startsWith(word) ? Number.POSITIVE_INFINITY : Math.max(2, name.length / 3);
  const near = nearest(word, known, mostEdits);
  return near === undefined ? '' : `; did you mean ${near}?`;
}

// --- help

export function synopsis({ name, file, options }: Command): string {
  const parts = Object.entries(options).map(([option, { value, required }]) => {
    const text = `--${option}${value === undefined ? '' : ` ${value}`}`;
    return required ? text : `[${text}]`;
  });
  return ['promo-intake', name, ...(file === undefined ? [] : ['FILE']), ...parts].join(' ');
}

export function overview(commands: readonly Command[]): string {
  const rows = commands.map((command): [string, string] => [
    `${command.name}${command.file === undefined ? '' : ' FILE'}`,
    command.summary,
  ]);
  return `promo-intake receives promotion events and decides a verdict for each event, once.

Commands
${table(rows)}

promo-intake COMMAND --help shows options, settings and exit codes; --version prints the version.
Settings come from the environment. docs/commands.md has the conditions of each command.

A first run
  export KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo
  promo-intake migrate
  promo-intake reference apply schemas/examples/reference.yaml
  promo-intake worker
`;
}

export function helpOf(command: Command): string {
  const sections: [title: string, text: string][] = [
    ['Usage', `  ${synopsis(command)}`],
    ['Example', `  ${command.example}`],
  ];
  const options = Object.entries(command.options).map(([name, { value, help }]): [string, string] => [
    `--${name}${value === undefined ? '' : ` ${value}`}`,
    help,
  ]);
  if (command.file === 'file or -') options.unshift(['FILE', '- is standard input']);
  if (options.length > 0) sections.push(['Options', table(options)]);
  if (command.settings.length > 0)
    sections.push([
      'Settings, from the environment',
      table(command.settings.flatMap(settingsOf).map(describeSetting)),
    ]);
  sections.push(['Exit codes', table(Object.entries(command.exits))]);
  const heading = `promo-intake ${command.name}: ${command.summary}\n\n${wrap(command.purpose, 0)}`;
  return `${heading}\n\n${sections.map(([title, text]) => `${title}\n${text}`).join('\n\n')}\n`;
}

function describeSetting(name: SettingName): [string, string] {
  const { describe, required, fallback, secret } = SETTINGS[name];
  const notes = [
    ...(secret ? [`Or in a file that ${name}_FILE names.`] : []),
    ...(required ? ['Required.'] : []),
    ...(fallback === undefined ? [] : [`Default: ${fallback}.`]),
  ];
  return [name, [describe, ...notes].join(' ')];
}

function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length)) + 4;
  return rows.map(([name, text]) => `  ${name.padEnd(width - 2)}${wrap(text, width)}`).join('\n');
}

/** Wraps lines at spaces, and indents all but the first. */
function wrap(text: string, indent: number): string {
  const line = new RegExp(`(.{1,${HELP_WIDTH - indent}})(?: +|$)`, 'gm');
  return text
    .replace(line, `$1\n${' '.repeat(indent)}`)
    .replace(/ +$/gm, '')
    .trimEnd();
}
