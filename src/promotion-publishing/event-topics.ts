/** The topics that are read. None of them may get completions: a worker would take these for events. */
import { inTransaction, type Statement, type Store } from '../postgres/transaction';

const TOPICS: Statement = {
  name: 'event_topics',
  text: 'select distinct topic from promo.connections where topic is not null',
};

/** @throws StoreError */
export function readEventTopics(store: Store): Promise<string[]> {
  return inTransaction(store, async (session) => {
    const rows = await session.query(TOPICS);
    return rows.map(([topic]) => topic ?? '');
  });
}
