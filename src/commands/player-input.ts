/**
 * Reads a player from the option --player, or from standard input, so that no shell history keeps the name.
 */
import { isUtf8 } from 'node:buffer';
import { type Options, wrong } from '../cli/option-values';
import { MAX_PROMO_PLAYER_BYTES, MAX_PROMO_PLAYER_CHARACTERS } from '../domain/attribution';
import { readUpTo } from '../lib/read-limited';

/** @throws ConfigError if there is no player, or if the input is not one */
export async function playerOf(options: Options): Promise<string> {
  const player = options.get('player') ?? (await standardInput());
  if (player === '') throw wrong('player', 'is empty', 'Write the player_ref, or send it to standard input');
  return player;
}

/** @throws if the input is not a player_ref: an erasure would erase nothing and report success */
async function standardInput(): Promise<string> {
  // A player of an attribution has up to 255 characters, and a player_ref of an event up to 255 bytes.
  const input = await readUpTo(process.stdin, MAX_PROMO_PLAYER_BYTES + LINE_END.length);
  const tooLong = () => wrong('player', 'is longer than a player_ref may be', 'Send one player_ref');
  if (input === null) throw tooLong();
  if (!isUtf8(input)) throw wrong('player', 'is not UTF-8', 'Send it in UTF-8, as in events');
  const text = input.toString('utf8');
  if (text.startsWith(BYTE_ORDER_MARK))
    throw wrong('player', 'begins with a byte order mark', 'Send the player_ref alone');
  const player = text.replace(/\r?\n$/, '');
  if (/[\r\n]/.test(player))
    throw wrong(
      'player',
      'has more than one line',
      'Send one player_ref; use --player for one that has a line break',
    );
  if (Array.from(player).length > MAX_PROMO_PLAYER_CHARACTERS) throw tooLong();
  return player;
}

const BYTE_ORDER_MARK = '\uFEFF';
const LINE_END = '\r\n';
