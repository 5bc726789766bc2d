/** `promo-intake erase-player`: erases a player, and records it in the log of operations. */
import { DONE } from '../../cli/exit-codes';
import { type Options, requestedBy } from '../../cli/option-values';
import { playerOf } from '../../cli/player-input';
import { readConfig } from '../../config/config';
import { erasePlayer } from '../../ledger/erasure';
import { counted } from '../../lib/printable';

/** Rows of one transaction, which locks the rounds of its events while it lasts. */
const ERASE_BATCH = 5_000;

/** Replaces a player in all stored data. @returns the exit code */
export async function erase(options: Options): Promise<number> {
  const player = await playerOf(options);
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const target = { operator: options.get('operator') ?? '', player, batch: ERASE_BATCH };
  const erased = await erasePlayer(
    DATABASE,
    { requestedBy: requestedBy(options) },
    target,
    ({ verdicts, rounds }) =>
      console.log(`${counted(verdicts, 'verdict')}, ${counted(rounds, 'round')} so far`),
  );
  const { erasure, verdicts, rounds, payloads, walletCalls = 0 } = erased;
  console.log(
    `erased: ${counted(verdicts, 'verdict now names', 'verdicts now name')} erased:${erasure}; ${counted(rounds, 'round')} and ${counted(payloads, 'payload')} no longer identify the player`,
  );
  if (walletCalls > 0)
    console.log(
      `${counted(walletCalls, 'wallet call')} without data of the player now: not sent again, and unresolved. Resolve by op_id with the operator: see promo.wallet_calls`,
    );
  for (const line of LEFT) console.log(line);
  return DONE;
}

/** Copies of the data outside the tables, which the operator must handle. */
const LEFT = [
  'still to do by the operators of the servers:',
  '- Kafka: the topics of events and the dead-letter topic hold the original records until their retention ends. Verdict messages hold no player, and those of completions name the player.',
  '- Postgres: the old rows are on disk until vacuum, and in WAL, replicas and backups until these are deleted.',
  '- A later event or dead letter of the player is stored unchanged: run this command again then.',
];
