/** Pseudonyms as results of a fold: each slice adds those of its new players. */
import type { Results, Slice } from '../fold/fold';
import type { Session, Statement } from '../postgres/transaction';
import { type PseudonymKey, pseudonymOf } from './pseudonym';

/** The row of `promo_store.folds` that slices and rotations lock. */
export const PSEUDONYMS_FOLD = 'pseudonyms';

/** A player of an operator, by its name. */
export type Player = readonly [operatorId: string, playerRef: string];

/**
 * The row without a player counts the verdicts. The others are players without a pseudonym: of the verdicts,
 * and of the attributions with numbers of the slice.
 */
const READ: Statement = {
  name: 'pseudonyms_read',
  text: `with seen as materialized (
  select h.feed_no, h.player_ref, count(*) as verdicts, max(h.decided_at) as newest_at from promo_store.history h
  where h.verdict_id > $2::bigint and h.verdict_id <= $3::bigint and h.decided_at >= $4::timestamptz group by 1, 2
), players as (
  select feed_no, player_ref from seen where player_ref is not null
  union select feed_no, player_ref from promo_store.attributions where change_no > $2::bigint and change_no <= $3::bigint
)
select null as operator_id, null as player_ref, coalesce(sum(verdicts), 0)::text as verdicts, max(newest_at)::text as newest_at from seen
union all
select distinct f.operator_id, p.player_ref, null, null from players p join promo_store.feeds f on f.feed_no = p.feed_no
where not exists (select from promo_store.pseudonyms x where x.key_no = $1::smallint and x.operator_id = f.operator_id and x.player_ref = p.player_ref)`,
};
const ADD: Statement = {
  name: 'pseudonyms_add',
  text: `insert into promo_store.pseudonyms (key_no, operator_id, player_ref, player_id)
select $1::smallint, * from unnest($2::text[], $3::text[], $4::text[]) on conflict do nothing`,
};

/** Stores the pseudonyms of players. */
export async function addPseudonyms(
  session: Session,
  keyNo: number,
  key: PseudonymKey,
  players: readonly Player[],
): Promise<void> {
  if (players.length === 0) return;
  await session.query(ADD, [
    keyNo,
    players.map(([operatorId]) => operatorId),
    players.map(([, playerRef]) => playerRef),
    players.map(([operatorId, playerRef]) => pseudonymOf(key, operatorId, playerRef)),
  ]);
}

/** Another process has changed the key that readers see, while this one read a slice. */
export class OtherKeyShown extends Error {
  override readonly name = 'OtherKeyShown';
  constructor(id: string) {
    super(`the pseudonyms are no longer those of the key ${id}`);
  }
}

const SHOWN: Statement = {
  name: 'pseudonyms_shown',
  text: `select key_no from promo_store.pseudonym_keys where key_id = $1 and state = 'shown'`,
};

/**
 * @param key the one whose pseudonyms readers see
 * @param onAdded called with the number of new players of a slice
 */
export function makePseudonymResults(key: PseudonymKey, onAdded: (players: number) => void): Results {
  return {
    name: PSEUDONYMS_FOLD,
    async fold(session: Session, { after, upTo, since }: Slice) {
      const [[keyNo] = []] = await session.query(SHOWN, [key.id]);
      if (keyNo == null) throw new OtherKeyShown(key.id);
      let verdicts = 0;
      let newest: string | null = null;
      const players: Player[] = [];
      for (const [operatorId, playerRef, count, newestAt] of await session.query(READ, [
        ...[keyNo, after, upTo, since],
      ])) {
        if (operatorId != null && playerRef != null) players.push([operatorId, playerRef]);
        else [verdicts, newest] = [Number(count), newestAt ?? null];
      }
      await addPseudonyms(session, Number(keyNo), key, players);
      onAdded(players.length);
      return { rows: verdicts, newestAt: newest };
    },
    /** A generation reads history again, and adds what is missing. It has no rows of its own. */
    async keepOlder() {},
    sweep: async () => true,
  };
}
