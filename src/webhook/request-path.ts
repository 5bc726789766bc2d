/** The path and query of a request: the connection that sends, and its purpose (W4, W9). */
import { signedUrlOf } from './routes';

/** Any way to write the parameter. Only the right one begins a rehearsal, and none decides by mistake. */
const LIKE_DRY_RUN = /^dry\W*_?run$/i;

export interface RequestTarget {
  readonly connectionId: string;
  readonly mode: 'decide' | 'rehearse' | 'reconcile' | 'unclear';
}

/** Null where the path is no address of the webhook. */
export function targetIn(url: string): RequestTarget | null {
  const found = signedUrlOf(url);
  if (found === null) return null;
  const { route, written, query } = found;
  try {
    const connectionId = decodeURIComponent(written);
    if (route === 'reconcile') return { connectionId, mode: 'reconcile' };
    const byQuery = query === '' ? 'absent' : modeOf(query);
    if (route === 'events') return { connectionId, mode: byQuery === 'absent' ? 'decide' : byQuery };
    // The path asks for a rehearsal: a query that asks for a decision contradicts the path.
    const isRehearsal = byQuery === 'absent' || byQuery === 'rehearse';
    return { connectionId, mode: isRehearsal ? 'rehearse' : 'unclear' };
  } catch {
    return null; // a % that encodes no character
  }
}

function modeOf(query: string): 'absent' | 'decide' | 'rehearse' | 'unclear' {
  const alike = [...new URLSearchParams(query)].filter(([name]) => LIKE_DRY_RUN.test(name.trim()));
  const [only] = alike;
  if (only === undefined) return 'absent';
  const [name, value] = only;
  if (alike.length > 1 || name !== 'dry_run') return 'unclear';
  return value === 'true' ? 'rehearse' : value === 'false' ? 'decide' : 'unclear';
}
