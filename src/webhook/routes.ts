/** The routes of the webhook, as data. The server finds a route here, and openapi.ts describes them. */
import { posix } from 'node:path';

interface Route {
  /** Others are refused. */
  readonly methods: readonly [string, ...string[]];
  /** As in OpenAPI. A name in braces is one part of the path, percent-encoded. */
  readonly path: string;
}

export const ROUTES = {
  events: { methods: ['POST'], path: '/v1/events/{connection_id}' },
  /** A webhook that knows no rehearsals refuses this path, and decides nothing of the request. */
  rehearse: { methods: ['POST'], path: '/v1/rehearse/{connection_id}' },
  reconcile: { methods: ['POST'], path: '/v1/reconcile/{connection_id}' },
  openapi: { methods: ['GET', 'HEAD'], path: '/v1/openapi.json' },
  /** The page that checks events, for people. */
  page: { methods: ['GET', 'HEAD'], path: '/check' },
  /** For the health checks of load balancers, which use the port of requests. Some check by OPTIONS. */
  ready: { methods: ['GET', 'HEAD', 'OPTIONS'], path: '/readyz' },
} as const satisfies Record<string, Route>;

const PARAMETER = /\\\{\w+\\\}/g;

/** Matches a URL of the route. Its groups are the parameter, where the path has one, and the query. */
function patternOf({ path }: Route): RegExp {
  const text = path.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll(PARAMETER, '([^/?]+)');
  return new RegExp(`^${text}(?:\\?(.*))?$`);
}

const SIGNED = (['events', 'rehearse', 'reconcile'] as const).map((route) => ({
  route,
  pattern: patternOf(ROUTES[route]),
}));
/** The signed paths without a connection. */
export const SIGNED_PATHS = SIGNED.map(({ route }) => posix.dirname(ROUTES[route].path));
const READ = (['openapi', 'page'] as const).map((route) => ({ route, pattern: patternOf(ROUTES[route]) }));

export interface SignedUrl {
  readonly route: 'events' | 'rehearse' | 'reconcile';
  /** The connection id, percent-encoded. */
  readonly written: string;
  readonly query: string;
}

/** The parts of a URL whose requests are signed; null for every other URL. */
export function signedUrlOf(url: string): SignedUrl | null {
  for (const { route, pattern } of SIGNED) {
    const [, written, query = ''] = pattern.exec(url) ?? [];
    if (written !== undefined) return { route, written, query };
  }
  return null;
}

export type PublicRoute = 'openapi' | 'page' | 'ready';

/** The route of a request that needs no signature; null for every other request. */
export function publicRouteOf(url: string | undefined): PublicRoute | null {
  if (url === ROUTES.ready.path) return 'ready';
  return READ.find(({ pattern }) => url !== undefined && pattern.test(url))?.route ?? null;
}

export function isMethodOf(route: keyof typeof ROUTES, method: string | undefined): boolean {
  const { methods }: Route = ROUTES[route];
  return methods.some((each) => each === method);
}
