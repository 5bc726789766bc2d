/** The path and query of a request: the connection that sends, and whether it only rehearses (W4, W9). */

const PATH = /^\/v1\/events\/([^/?]+)(?:\?(.*))?$/;
/** Any way to write the parameter. Only the right one begins a rehearsal, and none decides by mistake. */
const LIKE_DRY_RUN = /^dry\W*_?run$/i;

export interface RequestTarget {
  readonly connectionId: string;
  readonly mode: 'decide' | 'rehearse' | 'unclear';
}

/** Null where the path is no address of events. */
export function targetIn(url: string): RequestTarget | null {
  const [, written, query = ''] = PATH.exec(url) ?? [];
  if (written === undefined) return null;
  try {
    return { connectionId: decodeURIComponent(written), mode: query === '' ? 'decide' : modeOf(query) };
  } catch {
    return null; // a % that encodes no character
  }
}

function modeOf(query: string): RequestTarget['mode'] {
  const alike = [...new URLSearchParams(query)].filter(([name]) => LIKE_DRY_RUN.test(name.trim()));
  const [only] = alike;
  if (only === undefined) return 'decide';
  const [name, value] = only;
  if (alike.length > 1 || name !== 'dry_run') return 'unclear';
  return value === 'true' ? 'rehearse' : value === 'false' ? 'decide' : 'unclear';
}
