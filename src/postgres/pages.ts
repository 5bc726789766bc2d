/** Reads many rows by one scan, page by page: memory holds one page of them. */
import type { Row } from './pipeline';
import type { Reader, Statement } from './transaction';

/** A transaction has one such cursor at a time. */
const CURSOR = 'next_pages';
const PAGE_ROWS = 10_000;

const fetchOf = (rows: number): Statement => ({
  name: `next_page_of_${rows}`,
  text: `fetch ${rows} from ${CURSOR}`,
});
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
export async function* pagesOf(
  reader: Reader,
  begun: Promise<unknown>,
  pageRows = PAGE_ROWS,
): AsyncGenerator<Row[]> {
  const fetch = fetchOf(pageRows);
  let [, page] = await Promise.all([begun, reader.query(fetch)]);
  for (; page.length === pageRows; page = await reader.query(fetch)) yield page;
  yield page;
  await reader.query(CLOSE);
}
