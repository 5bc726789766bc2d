/**
 * Reads a profile from YAML: a profile, or all faults of the file with their places and remedies. Every use
 * of a profile begins here, so nothing checks it again.
 */
import { WALLET_ACTION_NAMES, WALLET_ACTIONS, type WalletAction } from '../contract/actions';
import { quoted } from '../lib/printable';
import type { Check } from '../reference-file/checks';
import { type Mapping, type Slot, suggestion, TreeReader } from '../reference-file/reader';
import { childPath, type FaultReport, type FileFault } from '../reference-file/report';
import { parseText } from '../reference-file/text';
import type { Tree } from '../reference-file/tree';
import {
  type ActionProfile,
  type AnswerProfile,
  type CheckLimits,
  CONNECTIONS,
  DEFAULT_CHECK_LIMITS,
  fieldAt,
  LARGEST_CHECK_LIMITS,
  PLAYER_KINDS,
  type PlayerKind,
  SIGNING_SCHEMES,
  type Signing,
  type TestPlayer,
  TIMESTAMP_FORMS,
  type WalletProfile,
} from './profile';
import {
  anyText,
  checkField,
  checkHeader,
  checkHeaderValue,
  checkKeyId,
  checkPath,
  checkSignedContent,
  checkUrl,
} from './profile-checks';
import { type EndpointNodes, readCatalogue, readTokenEndpoint } from './profile-endpoints';
import { OWN_HEADERS } from './request';
import { isPlace, NEEDED_PLACES, PLACES, placesIn, placesOf, type Template } from './template';

export type ParsedProfile = { readonly profile: WalletProfile } | { readonly faults: readonly FileFault[] };

/** Reads a profile from YAML or JSON, as `parseText` does. */
export function parseProfile(text: string, fileName: string): ParsedProfile {
  return parseText(text, { fileName, whenEmpty: 'Begin with "environment: test".' }, (tree, faults) => {
    const profile = new ProfileReader(faults).read(tree);
    return profile && { profile };
  });
}

const TOP_KEYS = [
  'environment',
  'base_url',
  'operator_id',
  'key_id',
  'idempotency_header',
  'headers',
  'ts',
  'amounts',
  'game',
  'signing',
  'actions',
  'unsupported',
  'answers',
  'connections',
  'players',
  'limits',
  'catalogue',
  'token_endpoint',
] as const;

/** The actions without which no effect can be seen. */
const REQUIRED_ACTIONS: readonly WalletAction[] = ['balance', 'debit', 'credit', 'rollback'];

class ProfileReader {
  private readonly nodes: TreeReader;
  /** The lower-case headers of calls, each of which has one use. */
  private readonly taken = new Set(OWN_HEADERS);
  private readonly callHeader: Check = (text) => {
    const name = text.toLowerCase();
    if (this.taken.has(name))
      return { message: 'This header has another use in wallet calls.', remedy: 'Choose another name.' };
    this.taken.add(name);
    return checkHeader(text);
  };

  constructor(private readonly faults: FaultReport) {
    this.nodes = new TreeReader(faults);
  }

  /** Undefined, or valid only where no fault was reported. */
  read(tree: Tree): WalletProfile | undefined {
    const top = this.nodes.mapping({ path: '', at: tree.at, tree }, TOP_KEYS);
    if (top === undefined) return undefined;
    this.environment(top);
    return {
      baseUrl: this.nodes.requiredText(
        top,
        'base_url',
        checkUrl,
        'Write the address, such as base_url: http://127.0.0.1:8787.',
      ),
      operatorId: this.nodes.requiredText(
        top,
        'operator_id',
        anyText,
        'Write the operator_id of the envelope.',
      ),
      keyId: this.nodes.requiredText(top, 'key_id', checkKeyId, 'Write the value of X-API-Key-Id.'),
      idempotencyHeader: this.nodes.requiredText(
        top,
        'idempotency_header',
        this.callHeader,
        'Write the name of the header, such as Idempotency-Key.',
      ),
      headers: this.headers(top.get('headers'), this.callHeader),
      ts: this.nodes.word(top.get('ts'), TIMESTAMP_FORMS) ?? 'rfc3339',
      amounts: this.nodes.word(top.get('amounts'), ['minor', 'major'] as const) ?? 'minor',
      game: this.nodes.text(top.get('game'), anyText) ?? 'wallet-check-game',
      signing: this.signing(top.get('signing')),
      actions: this.actions(top),
      unsupported: this.unsupported(top.get('unsupported')),
      answers: this.answers(top),
      connections:
        this.nodes.wholeNumber(top.get('connections'), CONNECTIONS.least, CONNECTIONS.most) ??
        CONNECTIONS.usual,
      players: this.players(top),
      limits: this.limits(top.get('limits')),
      catalogue: readCatalogue(this.endpointNodes(), top.get('catalogue')),
      tokenEndpoint: readTokenEndpoint(this.endpointNodes(), top.get('token_endpoint')),
    };
  }

  /** The check moves money. It runs only where the profile declares a test environment. */
  private environment(top: Mapping): void {
    const remedy = 'Write "environment: test", and only for a wallet without real money.';
    const slot = this.nodes.required(top, 'environment', remedy);
    const value = this.nodes.text(slot, anyText);
    if (value !== undefined && value !== 'test') {
      this.faults.add(slot, `The environment is ${quoted(value)}, and the check moves money.`, remedy);
    }
  }

  private endpointNodes(): EndpointNodes {
    return {
      nodes: this.nodes,
      headers: (slot) => this.headers(slot, checkHeader),
      json: (slot) => (slot.tree === undefined ? null : this.json(slot.tree, slot.path)),
    };
  }

  private headers(slot: Slot, check: Check): ReadonlyMap<string, string> {
    return new Map(
      this.nodes.entries(slot).map(({ key, keyPlace, value }) => {
        const complaint = check(key);
        if (complaint !== undefined) this.faults.add(keyPlace, complaint.message, complaint.remedy);
        return [key, this.nodes.text(value, checkHeaderValue) ?? ''];
      }),
    );
  }

  private signing(slot: Slot): Signing | null {
    if (slot.tree?.kind === 'leaf' && slot.tree.value === 'none') return null;
    const keys = ['scheme', 'header', 'prefix', 'timestamp_header', 'encoding', 'content', 'secret_file'];
    const node = this.nodes.mapping(slot, keys);
    if (node === undefined) return null;
    const scheme = this.nodes.required(node, 'scheme', 'Write "scheme: hmac-sha256".');
    return {
      scheme: this.nodes.word(scheme, SIGNING_SCHEMES) ?? 'hmac-sha256',
      header: this.nodes.requiredText(
        node,
        'header',
        this.callHeader,
        'Write the name of the header that has the signature.',
      ),
      prefix: this.nodes.text(node.get('prefix'), checkHeaderValue) ?? '',
      timestampHeader: this.nodes.text(node.get('timestamp_header'), this.callHeader) ?? null,
      encoding: this.nodes.word(node.get('encoding'), ['hex', 'base64'] as const) ?? 'hex',
      content: this.nodes.text(node.get('content'), checkSignedContent) ?? '{{timestamp}}.{{body}}',
      secretFile: this.nodes.requiredText(
        node,
        'secret_file',
        anyText,
        'Name a file that holds the secret alone.',
      ),
    };
  }

  private actions(top: Mapping): ReadonlyMap<WalletAction, ActionProfile> {
    const slot = this.nodes.required(top, 'actions', 'Describe balance, debit, credit and rollback.');
    const node = this.nodes.mapping(slot, WALLET_ACTION_NAMES);
    const found = new Map<WalletAction, ActionProfile>();
    if (node === undefined) return found;
    for (const name of WALLET_ACTION_NAMES) {
      const action = node.get(name);
      if (action.tree !== undefined) {
        const read = this.action(name, action);
        if (read !== undefined) found.set(name, read);
      } else if (REQUIRED_ACTIONS.includes(name)) {
        this.faults.add(
          node,
          `The key "${name}" is missing.`,
          'Describe the call: the effects cannot be seen without it.',
        );
      }
    }
    return found;
  }

  private action(name: WalletAction, slot: Slot): ActionProfile | undefined {
    const node = this.nodes.mapping(slot, ['path', 'payload', 'enum_field']);
    if (node === undefined) return undefined;
    const shown = WALLET_ACTIONS[name].path;
    const path =
      shown !== null && node.get('path').tree === undefined
        ? shown
        : this.nodes.requiredText(
            node,
            'path',
            checkPath,
            'Write the path under base_url, such as /v2/wallet/balance.',
          );
    const payloadSlot = this.nodes.required(
      node,
      'payload',
      'Write the payload with places such as {{op_id}}.',
    );
    if (payloadSlot.tree === undefined) return undefined;
    const payload = this.json(payloadSlot.tree, payloadSlot.path);
    const places = placesOf(payload);
    for (const place of NEEDED_PLACES[name] ?? []) {
      if (!places.has(place)) {
        this.faults.add(payloadSlot, `The payload has no {{${place}}}.`, `Put "{{${place}}}" in its field.`);
      }
    }
    const opId = fieldAt(payload, 'meta.op_id');
    if (typeof opId !== 'string' || placesIn(opId).length === 0) {
      this.faults.add(
        payloadSlot,
        'The payload has no meta.op_id with a place.',
        'Write "meta: { op_id: \'{{op_id}}\' }".',
      );
    }
    return { path, payload, enumField: this.nodes.text(node.get('enum_field'), checkField) ?? null };
  }

  private json(tree: Tree, path: string): Template {
    if (tree.kind === 'list') return tree.items.map((item, i) => this.json(item, childPath(path, i)));
    if (tree.kind === 'mapping') {
      return Object.fromEntries(
        this.nodes
          .entries({ path, at: tree.at, tree })
          .map(({ key, value }) => [
            key,
            value.tree === undefined ? null : this.json(value.tree, value.path),
          ]),
      );
    }
    if (tree.kind === 'broken') return null;
    const { value } = tree;
    if (typeof value === 'number' || typeof value === 'boolean') return value;
    if (typeof value !== 'string') return null;
    for (const name of placesIn(value)) {
      if (isPlace(name)) continue;
      const remedy =
        suggestion(name, PLACES) ?? `The places are ${PLACES.map((it) => `{{${it}}}`).join(' ')}.`;
      this.faults.add({ path, at: tree.at }, `The place {{${name}}} is unknown.`, remedy);
    }
    return value;
  }

  private unsupported(slot: Slot): ReadonlyMap<WalletAction, string> {
    const node = this.nodes.mapping(slot, WALLET_ACTION_NAMES);
    return new Map(
      WALLET_ACTION_NAMES.flatMap((name) => {
        const path = node === undefined ? undefined : this.nodes.text(node.get(name), checkPath);
        return path === undefined ? [] : [[name, path] as const];
      }),
    );
  }

  private answers(top: Mapping): AnswerProfile {
    const slot = this.nodes.required(top, 'answers', 'Write "answers: { balance: PATH }".');
    const node = this.nodes.mapping(slot, ['balance', 'success', 'changing']);
    if (node === undefined) return { balance: '', success: null, changing: [] };
    return {
      balance: this.nodes.requiredText(
        node,
        'balance',
        checkField,
        'Write the path of the balance in an answer, such as data.balance.',
      ),
      success: this.success(node.get('success')),
      changing: this.nodes.list(node.get('changing'), (item) => this.nodes.text(item, checkField)),
    };
  }

  private success(slot: Slot): AnswerProfile['success'] {
    const node = this.nodes.mapping(slot, ['field', 'values']);
    if (node === undefined) return null;
    const values = this.nodes.required(node, 'values', 'List the texts that mean success.');
    return {
      field: this.nodes.requiredText(
        node,
        'field',
        checkField,
        'Name the field that marks a success, such as status.',
      ),
      values: this.nodes.list(values, (item) => this.nodes.text(item, anyText)),
    };
  }

  private players(top: Mapping): ReadonlyMap<PlayerKind, TestPlayer> {
    const slot = this.nodes.required(top, 'players', 'Describe at least the player "usual".');
    const node = this.nodes.mapping(slot, PLAYER_KINDS);
    if (node === undefined) return new Map();
    this.nodes.required(node, 'usual', 'Name a player with money and a session.');
    return new Map(
      PLAYER_KINDS.flatMap((kind) => {
        const player = this.player(node.get(kind));
        return player === undefined ? [] : [[kind, player] as const];
      }),
    );
  }

  private player(slot: Slot): TestPlayer | undefined {
    const node = this.nodes.mapping(slot, ['id', 'token', 'currency', 'exponent', 'earlier_bet']);
    if (node === undefined) return undefined;
    return {
      id: this.nodes.requiredText(node, 'id', anyText, 'Write the id of the player in the wallet.'),
      token: this.nodes.requiredText(
        node,
        'token',
        anyText,
        'Write a token that the wallet accepts for the player.',
      ),
      currency: this.nodes.requiredText(
        node,
        'currency',
        anyText,
        "Write the currency of the player's account.",
      ),
      exponent: this.nodes.wholeNumber(node.get('exponent'), 0, 18) ?? 2,
      earlierBet: this.nodes.text(node.get('earlier_bet'), anyText) ?? null,
    };
  }

  private limits(slot: Slot): CheckLimits {
    const node = this.nodes.mapping(slot, ['requests', 'seconds']);
    const read = (name: keyof CheckLimits) =>
      (node && this.nodes.wholeNumber(node.get(name), 1, LARGEST_CHECK_LIMITS[name])) ??
      DEFAULT_CHECK_LIMITS[name];
    return { requests: read('requests'), seconds: read('seconds') };
  }
}
