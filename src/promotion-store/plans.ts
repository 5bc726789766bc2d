/** Joins of many rows, whatever number of them the planner expects. */
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';

const ALLOW_LOOPS: Statement = {
  name: 'promotions_loops',
  text: `select set_config('enable_nestloop', $1, true)`,
};

/** Runs a statement without nested loops, in one round trip. */
export async function byHash(
  reader: Reader,
  statement: Statement,
  values: readonly unknown[],
): Promise<Row[]> {
  const [, rows] = await Promise.all([
    reader.query(ALLOW_LOOPS, ['off']),
    reader.query(statement, values),
    reader.query(ALLOW_LOOPS, ['on']),
  ]);
  return rows;
}
