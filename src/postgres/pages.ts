/** Reads many rows by one scan, page by page: memory holds one page of them. */
import type { Row } from './pipeline';
import type { Reader, Statement } from './transaction';

/** A transaction has one such cursor at a time. */
const CURSOR = 'next_pages';
const PAGE_ROWS = 10_000;

const FETCH: Statement = { name: 'next_page', text: `fetch ${PAGE_ROWS} from ${CURSOR}` };
const CLOSE: Statement = { name: 'end_pages', text: `close ${CURSOR}` };

/** The statement that begins the scan of a query. Its parameters are those of the query. */
export const declared = ({ name, text }: Statement): Statement => ({
  name,
  text: `declare ${CURSOR} no scroll cursor for ${text}`,
});

/**
 * Read all pages before the next scan begins.
 *
 * @param begun the answer to the statement that begins the scan. The first page comes in the same round trip
 */
export async function* pagesOf(reader: Reader, begun: Promise<unknown>): AsyncGenerator<Row[]> {
  let [, page] = await Promise.all([begun, reader.query(FETCH)]);
  for (; page.length === PAGE_ROWS; page = await reader.query(FETCH)) yield page;
  yield page;
  await reader.query(CLOSE);
}
