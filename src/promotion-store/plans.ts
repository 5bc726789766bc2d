/** Plans of statements on many rows, whatever number of them the planner expects. */
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';

const ALLOW_LOOPS: Statement = {
  name: 'promotions_loops',
  text: `select set_config('enable_nestloop', $1, true)`,
};

const SET_PLANS: Statement = {
  name: 'promotions_set_plans',
  text: `select set_config('plan_cache_mode', $1, true)`,
};

/**
 * Passes the pages of a scan on. Statements between its first and its last page keep their plans: they look
 * rows up by lists of keys, and one plan fits all lists. The scan itself is planned for its own range.
 */
export async function* withKeptPlans<T>(reader: Reader, pages: AsyncIterable<T>): AsyncGenerator<T> {
  let isFirst = true;
  for await (const page of pages) {
    if (isFirst) await reader.query(SET_PLANS, ['force_generic_plan']);
    isFirst = false;
    yield page;
  }
  await reader.query(SET_PLANS, ['force_custom_plan']);
}

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
