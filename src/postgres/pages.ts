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
 * Read all pages before the next scan begins. The store reads each page while the caller uses the page in
 * front of it.
 *
 * @param begun the answer to the statement that begins the scan. The first page comes in the same round trip
 */
export function pagesOf(
  reader: Reader,
  begun: Promise<unknown>,
  pageRows = PAGE_ROWS,
): AsyncGenerator<Row[]> {
  const read = async (before?: Promise<unknown>) => {
    const [page] = await Promise.all([reader.query(fetchOf(pageRows)), before]);
    return page;
  };
  const first = read(begun);
  // Its failure is met by the caller that reads the first page.
  first.catch(() => {});
  return laterPages(reader, read, pageRows, first);
}

async function* laterPages(
  reader: Reader,
  read: () => Promise<Row[]>,
  pageRows: number,
  first: Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let page = await first;
  while (page.length === pageRows) {
    const next = read();
    // Its failure is met below. A caller that fails meets none.
    next.catch(() => {});
    // A statement is sent once the program waits.
    await new Promise<void>((sent) => process.nextTick(sent));
    yield page;
    page = await next;
  }
  yield page;
  await reader.query(CLOSE);
}
