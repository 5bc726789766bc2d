/** A call of a scenario as it is sent: ids, path and payload. Pure. */
import { isObject } from '../lib/json';
import type { PlayerKind, TestPlayer, WalletProfile } from '../wallet/profile';
import { isList, renderPayload, type Template, writeAmount } from '../wallet/template';
import type { Call, ScenarioAmount } from './scenario';

/** The facts of a scenario that is played. */
export interface ScenarioFacts {
  readonly profile: WalletProfile;
  /** Gives a word of the scenario an id that no wallet has seen. */
  readonly idOf: (word: string) => string;
  /** The balances at its start. */
  readonly balances: ReadonlyMap<PlayerKind, bigint>;
}

export interface WrittenCall {
  readonly opId: string;
  readonly path: string;
  /** JSON. */
  readonly payload: string;
  /** Sent in place of the envelope. */
  readonly rawBody: string | undefined;
}

/** 2^63: one more than the largest signed integer of 64 bits. */
const OVERFLOW = 2n ** 63n;
const MALFORMED = '{"request_id": "wallet-check", "payload": {';
const NO_TEMPLATE: Template = { meta: { op_id: '{{op_id}}' } };
const NOBODY: TestPlayer = { id: '', token: '', currency: '', exponent: 2, earlierBet: null };

/** @returns the call, or why the profile cannot write it */
export function writeCall(one: Call, facts: ScenarioFacts): WrittenCall | { readonly problem: string } {
  const { profile } = facts;
  const action = profile.actions.get(one.action);
  const path = one.unsupported ? profile.unsupported.get(one.action) : action?.path;
  const template = changed(one, action?.payload ?? NO_TEMPLATE, action?.enumField ?? null);
  const rendered = renderPayload(template, valuesOf(one, facts));
  if (rendered.type === 'malformed')
    return { problem: `the payload of "${one.action}" cannot be written: ${rendered.faults.join(', ')}` };
  return {
    opId: facts.idOf(one.op),
    path: path ?? '/',
    payload: rendered.json,
    rawBody: one.body === 'not_json' ? MALFORMED : undefined,
  };
}

export function testPlayerOf(kind: PlayerKind, { profile, idOf }: ScenarioFacts): TestPlayer {
  const player = profile.players.get(kind);
  if (player !== undefined) return player;
  // The player "unknown" may be left out: a name that no wallet has will do.
  return { ...(profile.players.get('usual') ?? NOBODY), id: idOf('no-such-player'), earlierBet: null };
}

function changed(one: Call, template: Template, enumField: string | null): Template {
  const named =
    one.unknownEnum && enumField !== null ? withField(template, enumField, 'X_WALLET_CHECK') : template;
  return one.unknownFields ? withUnknownFields(named) : named;
}

function valuesOf(one: Call, facts: ScenarioFacts): Record<string, string> {
  const { profile, idOf } = facts;
  const player = testPlayerOf(one.player ?? 'usual', facts);
  const amountOf = (amount: ScenarioAmount | undefined): string | null => {
    if (amount === undefined) return null;
    const all = facts.balances.get(one.player ?? 'usual') ?? 0n;
    const named = { all, more_than_all: all + 1n, overflow: OVERFLOW } as const;
    const minor = typeof amount === 'bigint' ? amount : named[amount];
    return writeAmount(minor, profile.amounts, player.exponent);
  };
  const values = {
    op_id: idOf(one.op),
    player: player.id,
    token: player.token,
    game: profile.game,
    amount: amountOf(one.amount),
    win: amountOf(one.win),
    currency: one.currency ?? player.currency,
    exponent: String(player.exponent + (one.exponentOff ?? 0)),
    round: idOf(one.round ?? 'round'),
    original: one.original === undefined ? player.earlierBet : idOf(one.original),
  };
  const without: readonly string[] = one.without ?? [];
  return Object.fromEntries(
    Object.entries(values).flatMap(([place, value]) =>
      value === null || without.includes(place) ? [] : [[place, value]],
    ),
  );
}

// --- payloads that are malformed, or come from a later version

/** Replaces or adds the field at a path such as `meta.kind`. */
export function withField(value: Template, path: string, field: Template): Template {
  const [first = '', ...rest] = path.split('.');
  const before: Readonly<Record<string, Template>> = isTemplateObject(value) ? value : {};
  return {
    ...before,
    [first]: rest.length === 0 ? field : withField(before[first] ?? {}, rest.join('.'), field),
  };
}

function isTemplateObject(value: Template): value is { readonly [field: string]: Template } {
  return isObject(value);
}

/** A field that no contract knows. */
export const UNKNOWN_FIELD = { x_wallet_check: { since: 'a later version' } } as const;

/** Adds it to each object. */
export function withUnknownFields(value: Template): Template {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(withUnknownFields);
  return {
    ...Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withUnknownFields(inner)])),
    ...UNKNOWN_FIELD,
  };
}
