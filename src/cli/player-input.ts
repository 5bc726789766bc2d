/**
 * Reads a player from the option --player, or from standard input, so that no shell history keeps the name.
 */
import { isUtf8 } from 'node:buffer';
import { MAX_PROMO_PLAYER_BYTES, MAX_PROMO_PLAYER_CHARACTERS } from '../domain/attribution';
import { readUpTo } from '../lib/read-limited';
import { type Options, wrongOption } from './option-values';

/** @throws ConfigError if there is no player, or if the input is not one */
export async function playerOf(options: Options): Promise<string> {
  const player = options.get('player') ?? (await standardInput(1))[0] ?? '';
  if (player === '')
    throw wrongOption('player', 'is empty', 'Write the player_ref, or send it to standard input');
  return player;
}

/** Reads the player to replace and the right one, from --was and --player or from two lines. */
export async function replacedPlayerOf(options: Options): Promise<{ was: string; player: string }> {
  const [given, other] = [options.get('was'), options.get('player')];
  const [was = '', player = ''] =
    given === undefined && other === undefined ? await standardInput(2) : [given ?? '', other ?? ''];
  const remedy = 'Write --was and --player, or send two lines: the player to replace, and the right one';
  if (was === '') throw wrongOption('was', 'is empty', remedy);
  if (player === '') throw wrongOption('player', 'is empty', remedy);
  return { was, player };
}

/**
 * @returns at most so many lines
 * @throws if the input is not a player_ref: an erasure would erase nothing and report success
 */
async function standardInput(most: 1 | 2): Promise<string[]> {
  // A player of an attribution has up to 255 characters, and a player_ref of an event up to 255 bytes.
  const input = await readUpTo(process.stdin, most * (MAX_PROMO_PLAYER_BYTES + LINE_END.length));
  const tooLong = () => wrongOption('player', 'is longer than a player_ref may be', 'Send one player_ref');
  if (input === null) throw tooLong();
  if (!isUtf8(input)) throw wrongOption('player', 'is not UTF-8', 'Send it in UTF-8, as in events');
  const text = input.toString('utf8');
  if (text.startsWith(BYTE_ORDER_MARK))
    throw wrongOption('player', 'begins with a byte order mark', 'Send the player_ref alone');
  const players = text.replace(/\r?\n$/, '').split(/\r?\n/);
  if (players.length > most || /\r/.test(players.join('')))
    throw wrongOption(
      'player',
      `has more than ${most === 1 ? 'one line' : 'two lines'}`,
      `Send ${most === 1 ? 'one player_ref' : 'two'}; use --player for one that has a line break`,
    );
  if (players.some((player) => Array.from(player).length > MAX_PROMO_PLAYER_CHARACTERS)) throw tooLong();
  return players;
}

const BYTE_ORDER_MARK = '\uFEFF';
const LINE_END = '\r\n';
