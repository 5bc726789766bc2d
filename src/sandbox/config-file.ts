/**
 * Reads the file of a sandbox (YAML or JSON): a configuration, or all faults with their places and remedies.
 */
import { quoted } from '../lib/printable';
import { type Check, checkBrand, checkGame, checkName } from '../reference-file/checks';
import { type Slot, TreeReader } from '../reference-file/reader';
import { childPath, type FaultReport, type FileFault } from '../reference-file/report';
import { parseText } from '../reference-file/text';
import type { Tree } from '../reference-file/tree';

export interface SandboxKey {
  readonly id: string;
  readonly isReadOnly: boolean;
  /** Beside the file of the sandbox. */
  readonly secretFile: string;
}

export interface SandboxIntake {
  /** The address of the webhook, without /v1/events. */
  readonly url: string;
  readonly connection: string;
  readonly secretFile: string;
  /** A file with the address of its database, for attributions. Null: the database of the sandbox. */
  readonly databaseFile: string | null;
}

export interface SandboxOperator {
  readonly id: string;
  /** A suspended operator gets 403. */
  readonly isActive: boolean;
  readonly keys: readonly SandboxKey[];
  /** The players that exist. Null: all. */
  readonly players: readonly string[] | null;
  /** The brands, of which a launch names one. Null: one brand, which no launch names. */
  readonly brands: readonly string[] | null;
  /** The file with the profile of the wallet. Null: no rounds. */
  readonly walletFile: string | null;
  /** Where events go. Null: nowhere. */
  readonly intake: SandboxIntake | null;
}

export interface SandboxGame {
  readonly id: string;
  readonly isDemoSupported: boolean;
  /** A game that is not available gets 403. */
  readonly isAvailable: boolean;
}

export interface SandboxConfig {
  readonly operators: readonly SandboxOperator[];
  readonly games: readonly SandboxGame[];
  /** The time after which a session expires. */
  readonly sessionSeconds: number;
}

export const DEFAULT_SESSION_SECONDS = 3_600;

export type ParsedSandboxConfig =
  | { readonly config: SandboxConfig }
  | { readonly faults: readonly FileFault[] };

/** Reads the file from YAML or JSON, as `parseText` does. */
export function parseSandboxConfig(text: string, fileName: string): ParsedSandboxConfig {
  const whenEmpty = 'Write at least an operator with a key, and a game.';
  return parseText(text, { fileName, whenEmpty }, (tree, faults) => {
    const config = new ConfigReader(faults).read(tree);
    return config && { config };
  });
}

const TOP_KEYS = ['operators', 'games', 'session_seconds'] as const;
const OPERATOR_KEYS = ['id', 'active', 'keys', 'players', 'brands', 'wallet', 'intake'] as const;
const KEY_KEYS = ['id', 'secret_file', 'access'] as const;
const INTAKE_KEYS = ['url', 'connection', 'secret_file', 'database_file'] as const;
const GAME_KEYS = ['id', 'demo_supported', 'available'] as const;
const LONGEST_SESSION_SECONDS = 86_400;

class ConfigReader {
  private readonly nodes: TreeReader;

  constructor(private readonly faults: FaultReport) {
    this.nodes = new TreeReader(faults);
  }

  /** Undefined, or valid only where no fault was reported. */
  read(tree: Tree): SandboxConfig | undefined {
    const top = this.nodes.mapping({ path: '', at: tree.at, tree }, TOP_KEYS);
    if (top === undefined) return undefined;
    const operators = this.nodes.list(
      this.nodes.required(top, 'operators', 'List at least one operator with a key.'),
      (item) => this.operator(item),
    );
    const games = this.nodes.list(this.nodes.required(top, 'games', 'List at least one game.'), (item) =>
      this.game(item),
    );
    this.differ(
      top.get('operators'),
      'operator',
      operators.map(({ id }) => id),
    );
    this.differ(
      top.get('operators'),
      'key',
      operators.flatMap(({ keys }) => keys.map(({ id }) => id)),
    );
    this.differ(
      top.get('games'),
      'game',
      games.map(({ id }) => id),
    );
    const seconds = this.nodes.wholeNumber(top.get('session_seconds'), 1, LONGEST_SESSION_SECONDS);
    return { operators, games, sessionSeconds: seconds ?? DEFAULT_SESSION_SECONDS };
  }

  private operator(item: Slot): SandboxOperator | undefined {
    const node = this.nodes.mapping(item, OPERATOR_KEYS);
    if (node === undefined) return undefined;
    return {
      id: this.nodes.requiredText(node, 'id', checkName, 'Write the id of the operator.'),
      isActive: this.nodes.flag(node.get('active')),
      keys: this.nodes.list(
        this.nodes.required(node, 'keys', 'List at least one key, with id and secret_file.'),
        (key) => this.key(key),
      ),
      players: this.names(node.get('players'), checkBrand),
      brands: this.names(node.get('brands'), checkBrand),
      walletFile: this.nodes.text(node.get('wallet'), anyText) ?? null,
      intake: this.intake(node.get('intake')),
    };
  }

  private key(item: Slot): SandboxKey | undefined {
    const node = this.nodes.mapping(item, KEY_KEYS);
    if (node === undefined) return undefined;
    return {
      id: this.nodes.requiredText(node, 'id', checkKeyId, 'Write the value of X-API-Key-Id.'),
      secretFile: this.nodes.requiredText(
        node,
        'secret_file',
        anyText,
        'Name the file with the secret of the key.',
      ),
      isReadOnly: this.nodes.word(node.get('access'), ['full', 'read_only'] as const) === 'read_only',
    };
  }

  private intake(slot: Slot): SandboxIntake | null {
    if (slot.tree === undefined) return null;
    const node = this.nodes.mapping(slot, INTAKE_KEYS);
    if (node === undefined) return null;
    return {
      url: this.nodes.requiredText(node, 'url', checkAddress, 'Write the address of the webhook.'),
      connection: this.nodes.requiredText(
        node,
        'connection',
        checkName,
        'Name the connection that sends the events.',
      ),
      secretFile: this.nodes.requiredText(
        node,
        'secret_file',
        anyText,
        'Name the file with the secret of the connection.',
      ),
      databaseFile: this.nodes.text(node.get('database_file'), anyText) ?? null,
    };
  }

  private game(item: Slot): SandboxGame | undefined {
    const node = this.nodes.mapping(item, GAME_KEYS);
    if (node === undefined) return undefined;
    return {
      id: this.nodes.requiredText(node, 'id', checkGame, 'Write the id of the game.'),
      isDemoSupported: this.nodes.flag(node.get('demo_supported')),
      isAvailable: this.nodes.flag(node.get('available')),
    };
  }

  private names(slot: Slot, check: Check): readonly string[] | null {
    if (slot.tree === undefined) return null;
    return this.nodes.list(slot, (item) => this.nodes.text(item, check));
  }

  private differ(slot: Slot, noun: string, ids: readonly string[]): void {
    const twice = ids.filter((id, place) => id !== '' && ids.indexOf(id) !== place);
    for (const id of new Set(twice))
      this.faults.add(
        { at: slot.at, path: childPath(slot.path, id) },
        `Two entries have the ${noun} ${quoted(id)}.`,
        'Keep one of the two.',
      );
  }
}

const anyText: Check = (text) =>
  text === '' ? { message: 'The text is empty.', remedy: 'Write the value, or remove the key.' } : undefined;

const checkKeyId: Check = (text) =>
  /^[\x21-\x7e]{1,255}$/.test(text)
    ? undefined
    : {
        message: 'The id of a key is the value of a header.',
        remedy: 'Use 1 to 255 visible ASCII characters.',
      };

const checkAddress: Check = (text) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.username + url.password === '')
    return undefined;
  return {
    message: 'The text is no address of a webhook.',
    remedy: 'Write one such as http://127.0.0.1:8081, without a user.',
  };
};
