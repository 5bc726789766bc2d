/** `promo-intake move-operator`: moves an operator from the store of DATABASE_URL to another cell's store. */

import { readFile, writeFile } from 'node:fs/promises';
import { DONE } from '../../cli/exit-codes';
import { type Options, requestedBy, wrongOption } from '../../cli/option-values';
import { readConfig } from '../../config/config';
import {
  cancelMove,
  type MovedPosition,
  type MoveRequest,
  moveOperator,
  planMove,
} from '../../ledger/move-operator';
import { counted } from '../../lib/printable';
import type { StoreAccess } from '../../postgres/pool';

/** @returns the exit code */
export async function move(options: Options): Promise<number> {
  if (options.has('confirm') && options.has('cancel'))
    throw wrongOption('cancel', 'excludes --confirm', 'Give one of them');
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
    const { fromCell, toCell, state, feeds, topics } = await planMove(request);
    console.log(`${operator}: from cell ${fromCell} to cell ${toCell}; state of the move: ${state}`);
    console.log(`feeds: ${feeds.join(', ') || 'none'}`);
    console.log(`topics: ${topics.join(', ') || 'none'}`);
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
  console.log(`${operator} is in cell ${plan.toCell}: apply reference data with the operator there`);
  return DONE;
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
