/**
 * Brings the keys of the store to those of the process. There may be a first key, a new key, a former key
 * that is kept for a while, and keys that are over.
 *
 * The pseudonyms of a new key are computed from the players of the present one, and then shown all at once.
 * Slices wait meanwhile. Each step is a transaction that locks the row of the fold, as a slice does.
 */
import { deleteSome, deletionOf, HOLD, lockFold } from '../fold/statements';
import { inTransaction, type Session, type Statement, type Store } from '../postgres/transaction';
import type { PseudonymKey } from './pseudonym';
import { addPseudonyms, type Player, PSEUDONYMS_FOLD } from './pseudonyms';

export interface RotationOptions {
  readonly holder: string;
  readonly leaseMs: number;
  /** The key of the pseudonyms, and the former one, which is kept beside it. */
  readonly keys: readonly [PseudonymKey, PseudonymKey | undefined];
  /** Show pseudonyms of a new key although the process does not have the present one. */
  readonly replacesLostKey: boolean;
  /** Players that get a pseudonym in one transaction. */
  readonly most?: number;
}

export type RotationStep =
  | { readonly kind: 'standby' }
  | { readonly kind: 'first key' | 'began' | 'shown' | 'forgotten'; readonly keyId: string }
  /** A part was computed or deleted, and there is more. */
  | { readonly kind: 'part' }
  | { readonly kind: 'settled' };

/** The pseudonyms that readers see are of a key that the process does not have. */
export class MissingKey extends Error {
  override readonly name = 'MissingKey';
  constructor(readonly shown: string) {
    super(
      `the pseudonyms in use are of the key ${shown}, which PSEUDONYM_KEYS does not have. Put this key first to go on with it, or second to replace it. Where it is lost or known to others, start with --replace-lost-key. All pseudonyms change then, and nothing leads from the former ones to the new ones`,
    );
  }
}

const KEYS: Statement = {
  name: 'rotation_keys',
  text: 'select key_no, key_id, state from promo_store.pseudonym_keys order by key_no',
};
const BEGIN: Statement = {
  name: 'rotation_begin',
  text: `insert into promo_store.pseudonym_keys (key_id, state, shown_at) values ($1, $2, case $2 when 'shown' then clock_timestamp() end)
on conflict (key_id) do update set state = excluded.state, began_at = clock_timestamp()`,
};
const SET_STATE: Statement = {
  name: 'rotation_state',
  text: `update promo_store.pseudonym_keys set state = $2, shown_at = case $2 when 'shown' then clock_timestamp() else shown_at end where key_no = $1`,
};
const FIND_MISSING: Statement = {
  name: 'rotation_missing',
  text: `select p.operator_id, p.player_ref from promo_store.pseudonyms p
where p.key_no = $1::smallint and (p.operator_id, p.player_ref) > ($3, $4)
  and not exists (select from promo_store.pseudonyms n where n.key_no = $2::smallint and n.operator_id = p.operator_id and n.player_ref = p.player_ref)
order by p.operator_id, p.player_ref limit $5`,
};
const FORGET = deletionOf('rotation_forget', 'pseudonyms', 'key_no = $1::smallint');
const FORGET_KEY: Statement = {
  name: 'rotation_forget_key',
  text: 'delete from promo_store.pseudonym_keys where key_no = $1',
};
const MOST = 20_000;
const START: Player = ['', ''];

export interface Rotation {
  /** One step, in a transaction of its own. @throws StoreError, MissingKey */
  step(): Promise<RotationStep>;
  /** Why this process cannot go on with the stored pseudonyms; null where it can. @throws StoreError */
  problem(): Promise<MissingKey | null>;
}

export function makeRotation(
  store: Store,
  { holder, leaseMs, keys, replacesLostKey, most = MOST }: RotationOptions,
): Rotation {
  const [wanted, former] = keys;
  /** Players up to this one have a pseudonym by the new key, or came later. */
  let filledUpTo = START;

  const problemOf = (shown: string): MissingKey | null =>
    shown === wanted.id || shown === former?.id || replacesLostKey ? null : new MissingKey(shown);

  async function stepIn(session: Session): Promise<RotationStep> {
    if (!(await lockFold(session, PSEUDONYMS_FOLD, holder))) return { kind: 'standby' };
    await session.query(HOLD, [PSEUDONYMS_FOLD, holder, leaseMs]);
    const rows = (await session.query(KEYS)).map(([no, id, state]) => ({
      no: Number(no),
      id: id ?? '',
      state,
    }));
    const shown = rows.find(({ state }) => state === 'shown');
    const target = rows.find(({ id }) => id === wanted.id);
    if (shown === undefined) {
      await session.query(BEGIN, [wanted.id, 'shown']);
      return { kind: 'first key', keyId: wanted.id };
    }
    if (shown.id === wanted.id)
      return tidy(
        session,
        rows.filter(({ id }) => id !== wanted.id),
      );
    const problem = problemOf(shown.id);
    if (problem !== null) throw problem;
    if (target?.state !== 'filling') {
      for (const { no, state } of rows)
        if (state === 'filling') await session.query(SET_STATE, [no, 'retired']);
      await session.query(BEGIN, [wanted.id, 'filling']);
      filledUpTo = START;
      return { kind: 'began', keyId: wanted.id };
    }
    const found = await session.query(FIND_MISSING, [shown.no, target.no, ...filledUpTo, most]);
    const players = found.map(([operatorId, playerRef]): Player => [operatorId ?? '', playerRef ?? '']);
    await addPseudonyms(session, target.no, wanted, players);
    const wasFromStart = filledUpTo === START;
    filledUpTo = players.length === most ? (players.at(-1) ?? START) : START;
    // A part that another process computed, or that an older one left, may have gaps: look from the start.
    if (players.length > 0 || !wasFromStart) return { kind: 'part' };
    for (const { no, state } of rows) if (state === 'former') await session.query(SET_STATE, [no, 'retired']);
    await session.query(SET_STATE, [shown.no, shown.id === former?.id ? 'former' : 'retired']);
    await session.query(SET_STATE, [target.no, 'shown']);
    return { kind: 'shown', keyId: wanted.id };
  }

  /** Deletes the pseudonyms of keys that are over. */
  async function tidy(
    session: Session,
    others: readonly { no: number; id: string; state: string | null | undefined }[],
  ): Promise<RotationStep> {
    const over = others.find(({ id, state }) => state !== 'former' || id !== former?.id);
    if (over === undefined) return { kind: 'settled' };
    if ((await deleteSome(session, [FORGET], [over.no])) > 0) return { kind: 'part' };
    await session.query(FORGET_KEY, [over.no]);
    return { kind: 'forgotten', keyId: over.id };
  }

  return {
    step: () => inTransaction(store, stepIn),
    problem: () =>
      inTransaction(store, async (session) => {
        const shown = (await session.query(KEYS)).find(([, , state]) => state === 'shown');
        return shown?.[1] == null ? null : problemOf(shown[1]);
      }),
  };
}
