/**
 * The profile of `wallet-check`, as the caller of wallets takes it. So one file describes a wallet to both.
 * Pure.
 */
import type { WalletAction } from '../contract/actions';
import type { CallProfile, Template, WalletActionProfile } from '../wallet/profile';
import type { ActionProfile, TimestampForm, WalletProfile } from '../wallet-check/profile';
import { isPlace, type PayloadJson, type PayloadPlace, placesOf } from '../wallet-check/template';

/** The calls that a sandbox sends at a time to one wallet. */
const CONNECTIONS = 8;
const TS: Readonly<Record<TimestampForm, CallProfile['ts']>> = {
  ...{ rfc3339: 'iso', unix_s: 'seconds', unix_ms: 'milliseconds' },
};

const ALWAYS = ['op_id', 'player', 'token', 'currency', 'exponent', 'round', 'game'] as const;
/** The places that have a value, by the actions of a round. */
const VALUES: { readonly [action in WalletAction]?: readonly PayloadPlace[] } = {
  debit: [...ALWAYS, 'amount'],
  credit: [...ALWAYS, 'amount', 'original'],
  rollback: [...ALWAYS, 'amount', 'original'],
  reconcile: [...ALWAYS, 'amount', 'original'],
  close_round: ALWAYS,
};

export type ReadCallProfile = { readonly profile: CallProfile } | { readonly faults: readonly string[] };

/** @returns the profile, or all that a sandbox cannot use of it */
export function callProfileOf(wallet: WalletProfile): ReadCallProfile {
  const { baseUrl, operatorId, keyId, idempotencyHeader, ts, signing, answers } = wallet;
  const [is, ...more] = answers.success?.values ?? [];
  const faults = [
    ...(wallet.headers.size > 0 ? ['headers: the sandbox sends no headers of your own; remove them'] : []),
    ...(more.length > 0 ? ['answers.success.values: the sandbox takes one value; name one'] : []),
  ];
  if (faults.length > 0) return { faults };
  return {
    profile: {
      ...{ operatorId, environment: 'test', baseUrl, keyId, idempotencyHeader, ts: TS[ts] },
      signing:
        signing === null
          ? { type: 'none' }
          : {
              ...{ type: 'hmac', hash: 'sha256', encoding: signing.encoding, header: signing.header },
              ...{ prefix: '', timestampHeader: signing.timestampHeader },
              content: signing.content.replace(/\{\{\s*(\w+)\s*\}\}/g, '{{$1}}'),
            },
      actions: actionsOf(wallet.actions),
      success:
        answers.success === null || is === undefined ? null : { field: answers.success.field.split('.'), is },
      ...{ balance: null, connections: CONNECTIONS },
    },
  };
}

function actionsOf(actions: ReadonlyMap<WalletAction, ActionProfile>): CallProfile['actions'] {
  const used: { [action in WalletAction]?: WalletActionProfile } = {};
  for (const [action, { path, payload }] of actions) {
    const values = VALUES[action];
    if (values !== undefined) used[action] = { path, payload: objectOf(translate(payload, action, values)) };
  }
  return used;
}

/** Leaves out each field whose place has no value. Undefined: the whole template is left out. */
function translate(
  template: PayloadJson,
  action: WalletAction,
  values: readonly PayloadPlace[],
): Template | undefined {
  if (typeof template === 'string') {
    const hasAll = [...placesOf(template)].every((place) => isPlace(place) && values.includes(place));
    return hasAll ? translateText(template, action) : undefined;
  }
  if (typeof template !== 'object' || template === null) return template;
  if (isList(template))
    return template.map((item) => translate(item, action, values)).filter((item) => item !== undefined);
  return Object.fromEntries(
    Object.entries(template).flatMap(([field, value]): [string, Template][] => {
      const translated = translate(value, action, values);
      return translated === undefined ? [] : [[field, translated]];
    }),
  );
}

function translateText(text: string, action: WalletAction): string {
  const isFollowing = action === 'rollback' || action === 'reconcile';
  return text.replace(/\{\{\s*(\w+)\s*(\|\s*number\s*)?\}\}/g, (_, place: string, number?: string) => {
    const name = place === 'original' && isFollowing ? 'original_op_id' : place;
    return `{{${number === undefined ? '' : 'number:'}${name}}}`;
  });
}

function isList(template: PayloadJson): template is readonly PayloadJson[] {
  return Array.isArray(template);
}

function objectOf(template: Template | undefined): { readonly [field: string]: Template } {
  return isTemplateObject(template) ? template : {};
}

function isTemplateObject(
  template: Template | undefined,
): template is { readonly [field: string]: Template } {
  return typeof template === 'object' && template !== null && !Array.isArray(template);
}
