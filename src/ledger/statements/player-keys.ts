/**
 * The keys of players' tags, one for each month. They are read from the store and kept until the next month.
 */
import { monthNo, monthOf, type PlayerKey, PlayerTags, playerKeyOf } from '../../domain/event/player-tag';
import { unreadable } from '../../postgres/errors';
import type { Session } from '../../postgres/transaction';

const PLAYER_KEYS = {
  name: 'player_keys',
  text: `select extract(year from month)::int, extract(month from month)::int, key from promo_store.player_keys where key is not null`,
};

export class PlayerKeys {
  private keys: ReadonlyMap<number, PlayerKey> = new Map();
  /**
   * The month in which the keys were read. The next months' keys were read with them, so other workers' tags
   * are known.
   */
  private readIn: number | undefined;

  /**
   * The version of the reference data under which the keys were read. An operator that arrives from another
   * store brings keys, and new reference data follows.
   */
  private readUnder: number | undefined;

  /**
   * The tags for a batch that is decided at this time.
   *
   * @param nowMicros microseconds since 1970
   * @param version of the reference data in force
   */
  async tagsAt(session: Session, nowMicros: bigint, version: number): Promise<PlayerTags> {
    const month = monthOf(nowMicros);
    if (this.readIn !== month || this.readUnder !== version) {
      this.keys = await readKeys(session);
      this.readIn = month;
      this.readUnder = version;
    }
    return new PlayerTags(this.keys, month);
  }

  /** Reads the keys again for the next batch: another store has other keys. */
  forget(): void {
    this.readIn = undefined;
  }
}

async function readKeys(session: Session): Promise<ReadonlyMap<number, PlayerKey>> {
  const keys = new Map<number, PlayerKey>();
  for (const [year, month, text] of await session.query(PLAYER_KEYS)) {
    // Postgres' text format of bytea is \x and two digits for each byte.
    const key = playerKeyOf(Buffer.from(text?.slice(2) ?? '', 'hex'));
    if (key === undefined) throw unreadable(PLAYER_KEYS.name, `the key of month ${year}-${month}`);
    keys.set(monthNo(Number(year), Number(month)), key);
  }
  return keys;
}
