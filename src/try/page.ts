/**
 * The page of a throwaway intake. It is the same for every request and holds no event: its script asks for
 * the events, and writes them as text alone. So no field of an event becomes markup.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const DIRECTORY = join(__dirname, '..', '..', 'pages', 'try');

/** Nothing from another address, no inline script or style, and no frame around it. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"],
    ...['img-src data:', "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ].join('; '),
  'referrer-policy': 'no-referrer',
};

export interface PageFile {
  readonly type: string;
  readonly body: string;
}

/** The files of the page by their paths. */
export function readPage(): ReadonlyMap<string, PageFile> {
  const read = (name: string, type: string): PageFile => ({
    type: `${type}; charset=utf-8`,
    body: readFileSync(join(DIRECTORY, name), 'utf8'),
  });
  return new Map([
    ['/try', read('page.html', 'text/html')],
    ['/try/page.js', read('page.js', 'text/javascript')],
    ['/try/page.css', read('page.css', 'text/css')],
  ]);
}
