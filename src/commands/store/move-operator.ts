/** `promo-intake move-operator`: moves an operator from the store of DATABASE_URL to another cell's store. */

import { readFile, writeFile } from 'node:fs/promises';
import { DONE } from '../../cli/exit-codes';
import { explain, Unable } from '../../cli/explain-error';
import { type Options, requestedBy, wrongOption } from '../../cli/option-values';
import { readConfig } from '../../config/config';
import { cancelMove, type MovedPosition, moveOperator, planMove } from '../../ledger/move-operator';
import type { MoveRequest } from '../../ledger/move-states';
import { isOfReceivingStore } from '../../ledger/move-stores';
import { counted } from '../../lib/printable';
import type { StoreAccess } from '../../postgres/pool';

/** @returns the exit code */
export async function move(options: Options): Promise<number> {
  if (options.has('confirm') && options.has('cancel'))
    throw wrongOption('cancel', 'excludes --confirm', 'Give one of them');
  if (options.has('offsets') && !options.has('confirm'))
    throw wrongOption('offsets', 'is of no use without --confirm', 'Add --confirm, or leave it out');
  try {
    return await moveNow(options);
  } catch (error) {
    throw explained(error, options.get('to') ?? '');
  }
}

async function moveNow(options: Options): Promise<number> {
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const request: MoveRequest = {
    operator: options.get('operator') ?? '',
    from: DATABASE,
    to: await readTarget(DATABASE, options.get('to') ?? ''),
    requestedBy: requestedBy(options),
  };
  const { operator } = request;
  if (options.has('cancel')) {
    await cancelMove(request, (line) => console.log(line));
    console.log(`cancelled: ${operator} is in its old cell, whose reference data may name it again`);
    return DONE;
  }
  if (!options.has('confirm')) {
    const { fromCell, toCell, state, feeds, topics, obstacles } = await planMove(request);
    console.log(`${operator}: from cell ${fromCell} to cell ${toCell}; state of the move: ${state}`);
    console.log(`feeds: ${feeds.join(', ') || 'none'}`);
    console.log(`topics: ${topics.join(', ') || 'none'}`);
    for (const obstacle of obstacles) console.log(`before the move: ${obstacle}`);
    console.log('plan only: nothing was changed; add --confirm to move');
    return DONE;
  }
  const { plan, positions } = await moveOperator(request, (line) => console.log(line));
  if (plan.state === 'done') console.log(`${operator} was moved before`);
  const file = options.get('offsets');
  if (file !== undefined) {
    await writeFile(file, csvOf(positions));
    console.log(`offsets of ${counted(positions.length, 'partition')} written to ${file}`);
  }
  console.log(
    `${operator} is in cell ${plan.toCell}. Now set the offsets of its group, delete those of the old group, and apply reference data with the operator there: docs/operations/cells.md`,
  );
  return DONE;
}

/** An error of the receiving store, with the address that a person has to look at. */
function explained(error: unknown, file: string): unknown {
  if (!isOfReceivingStore(error)) return error;
  const problem = explain(error.cause).message.replace(', or DATABASE_PASSWORD', '');
  return new Unable(`the receiving store: ${problem.replaceAll('DATABASE_URL', `the address in ${file}`)}`);
}

/** The settings of TLS are those of the leaving store. The file has the password, as a mounted secret. */
async function readTarget(leaving: StoreAccess, file: string): Promise<StoreAccess> {
  const address = (await readFile(file, 'utf8')).trim();
  if (!/^postgres(ql)?:\/\/\S+$/.test(address) || !URL.canParse(address))
    throw wrongOption(
      'to',
      `${file} holds no address of a database`,
      'Write postgres://USER:PASSWORD@HOST:PORT/NAME',
    );
  return { ...leaving, databaseUrl: address, password: undefined };
}

/** The form that `kafka-consumer-groups.sh --reset-offsets --from-file` reads. */
function csvOf(positions: readonly MovedPosition[]): string {
  return positions
    .map(({ topic, partition, decidedUpTo }) => `${topic},${partition},${decidedUpTo}\n`)
    .join('');
}
