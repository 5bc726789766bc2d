/**
 * Recovers players from the store alone. It takes the stored data of each event and round, and tries every
 * candidate with every hash that the product ever made of a player. A player that a test cannot recover this
 * way is safe from any reader of the source.
 */
import { hashContent } from '../../src/domain/event/content-hash';
import { type Fields, isKind, SPEC } from '../../src/domain/event/event';
import { ContentHash } from '../../src/domain/event/id-key';
import { currencyOf } from '../../src/domain/event/money';
import { monthNo, type PlayerKey, PlayerTags, playerKeyOf } from '../../src/domain/event/player-tag';
import { rowsOf } from './ledger';

type Client = Parameters<typeof rowsOf>[0];

/** The data that history keeps of an event once its player is erased. */
export interface KnownOfEvent {
  readonly eventId: string;
  readonly contentHash: bigint;
  /** The fields, to which a candidate player is added. */
  readonly fields: Fields;
}

const EVENTS = `select v.event_id, k.content_hash, v.kind, v.brand, v.round_id, v.game_id, v.amount_minor, v.currency,
  (extract(epoch from v.occurred_at) * 1000000)::bigint
from promo.verdicts v join promo_store.event_keys k using (verdict_id) order by v.verdict_id`;

export async function knownOfEvents(client: Client): Promise<KnownOfEvent[]> {
  return (await rowsOf(client, EVENTS)).map(
    ([eventId, hash, kind, brand, roundId, gameId, amount, currency, occurredAt]) => ({
      eventId: eventId ?? '',
      contentHash: BigInt(hash ?? 0),
      fields: {
        kind: kind != null && isKind(kind) ? kind : null,
        brand: brand ?? null,
        playerRef: null,
        roundId: roundId ?? null,
        gameId: gameId ?? null,
        amountMinor: amount == null ? null : BigInt(amount),
        currency: currency == null ? null : (currencyOf(currency) ?? null),
        occurredAtMicros: occurredAt == null ? null : BigInt(occurredAt),
      },
    }),
  );
}

/** The keys in the store, by number of month. */
export async function playerKeysIn(client: Client): Promise<Map<number, PlayerKey>> {
  const rows = await rowsOf(
    client,
    `select to_char(month, 'YYYY-MM'), encode(key, 'hex') from promo_store.player_keys where key is not null`,
  );
  return new Map(
    rows.flatMap(([month, hex]) => {
      const [year = 0, number = 0] = (month ?? '').split('-').map(Number);
      const key = playerKeyOf(Buffer.from(hex ?? '', 'hex'));
      return key === undefined ? [] : [[monthNo(year, number), key] as const];
    }),
  );
}

const TAG_BITS = 24n;

/** @returns for each event that reveals its player, its id and the candidates that fit */
export async function playersOfEvents(
  client: Client,
  events: readonly KnownOfEvent[],
  candidates: readonly string[],
): Promise<string[]> {
  const keys = await playerKeysIn(client);
  return events.flatMap(({ eventId, contentHash, fields }) => {
    const low = Number(BigInt.asUintN(Number(TAG_BITS), contentHash));
    const month = Number(BigInt.asUintN(9, contentHash >> 54n));
    const whole = contentHash >= 0n ? Number(contentHash) : null;
    const tags = new PlayerTags(keys, month);
    const salt = fields.roundId ?? eventId;
    // One object for all candidates: a million copies take seconds.
    const guess = { ...fields };
    const fits = (playerRef: string) => {
      guess.playerRef = playerRef;
      if (whole !== null) return hashContent({ spec: SPEC }, guess) === whole;
      const tag = tags.make(salt, playerRef);
      return tag !== null && low !== 0 && (tag % 2 ** Number(TAG_BITS) || 1) === low;
    };
    return candidates.filter(fits).map((candidate) => `${eventId}: ${candidate}`);
  });
}

/** The same for rounds. */
export async function playersOfRounds(client: Client, candidates: readonly string[]): Promise<string[]> {
  const keys = await playerKeysIn(client);
  const rounds = await rowsOf(
    client,
    'select round_id, player_hash, player_tag from promo_store.rounds order by round_no',
  );
  const hash = new ContentHash();
  return rounds.flatMap(([roundId, playerHash, playerTag]) => {
    const tags = new PlayerTags(keys, 0);
    const fits = (player: string) =>
      (playerHash != null &&
        hash
          .begin()
          .text(roundId ?? '')
          .text(player)
          .value() === Number(playerHash)) ||
      (playerTag != null && tags.matches(Number(playerTag), roundId ?? '', player) === true);
    return candidates.filter(fits).map((candidate) => `${roundId}: ${candidate}`);
  });
}

/** `count` names, and the player in the middle of them. */
export function candidatesAround(player: string, count: number): string[] {
  const names = Array.from({ length: count }, (_, n) => `player-${n}`);
  names.splice(Math.floor(count / 2), 0, player);
  return names;
}
