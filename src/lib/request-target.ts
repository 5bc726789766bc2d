/** The target of an HTTP request, in one of the two forms that a server must accept (RFC 9112, 3.2.2). */

/** The part of a request that names its target. */
interface Targeted {
  url?: string | undefined;
}

const ABSOLUTE = /^https?:\/\/[^/?#]*/i;

/**
 * Some clients and proxies send `POST http://host/path` in place of `POST /path`. Both mean the same here:
 * the authority is dropped, and readers of `request.url` see the path alone.
 */
export function useOriginForm(request: Targeted): void {
  const { url = '' } = request;
  const [authority] = ABSOLUTE.exec(url) ?? [];
  if (authority === undefined) return;
  const path = url.slice(authority.length);
  request.url = path.startsWith('/') ? path : `/${path}`;
}
