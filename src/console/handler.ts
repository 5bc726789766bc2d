/** Answers the requests of the console. It knows who asks before it looks at anything else. */
import type { Logger } from 'pino';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { limitLines } from '../lib/line-limit';
import { type Html, html } from '../markup/html';
import { StoreError } from '../postgres/errors';
import { frame } from './layout';
import { anomaliesPage } from './pages/anomalies';
import { connectionsPage } from './pages/connections';
import { duplicatesPage } from './pages/duplicates';
import { eventPage } from './pages/event';
import { overviewPage } from './pages/overview';
import { promotionPage, promotionPlayerPage, promotionsPage } from './pages/promotions';
import { roundPage } from './pages/round';
import { BadParameter, linkTo, type ParameterName, type Parameters, readParameters } from './parameters';
import { type OpenPage, type PageReader, ReaderIsBusy, type ShownQuery } from './reader';
import type { OperatorScope } from './scope';
import { ICON, STYLE } from './style';
import {
  makeSession,
  SESSION_SECONDS,
  scopeOfSession,
  scopeOfToken,
  type Tokens,
  type WrongTokens,
} from './tokens';

export interface ConsoleRequest {
  readonly method: string;
  /** The path and query as they were sent. */
  readonly url: string;
  /** Each header once. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The body of a POST. */
  readonly body: string;
  /** The key of the limit of wrong tokens. */
  readonly sender: string;
}

export interface ConsoleAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ConsoleHandlerDeps {
  readonly tokens: () => Tokens;
  readonly wrongTokens: WrongTokens;
  readonly openPage: OpenPage;
  /** Milliseconds since 1970. */
  readonly wallNow: () => number;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
  readonly metrics: HandlerMetrics;
}

/** The part of the metrics that the handler needs. */
export interface HandlerMetrics {
  readonly consoleRequests: { inc(labels: { page: string; status: string }): void };
  readonly consoleSeconds: { observe(labels: { page: string }, seconds: number): void };
  readonly consoleWrongTokens: { inc(): void };
}

interface Page {
  readonly title: string;
  readonly parameters: readonly ParameterName[];
  readonly render: (reader: PageReader, parameters: Parameters) => Promise<Html>;
}

export const PAGES: ReadonlyMap<string, Page> = new Map<string, Page>([
  ['/', { title: 'Overview', parameters: ['range', 'until'], render: overviewPage }],
  ['/connections', { title: 'Connections', parameters: ['range', 'until'], render: connectionsPage }],
  [
    '/duplicates',
    { title: 'Duplicates that differ', parameters: ['range', 'until'], render: duplicatesPage },
  ],
  ['/anomalies', { title: 'Anomalies', parameters: ['range', 'until'], render: anomaliesPage }],
  ['/promotions', { title: 'Promotions', parameters: [], render: promotionsPage }],
  ['/promotion', { title: 'Promotion', parameters: ['promotion', 'range', 'until'], render: promotionPage }],
  [
    '/promotion-player',
    { title: 'Player', parameters: ['promotion', 'player'], render: promotionPlayerPage },
  ],
  ['/event', { title: 'Event', parameters: ['feed', 'id'], render: eventPage }],
  ['/round', { title: 'Round', parameters: ['feed', 'id'], render: roundPage }],
]);

/** The same for everybody. */
const FILES: ReadonlyMap<string, readonly [string, string]> = new Map([
  ['/console.css', ['text/css; charset=utf-8', STYLE]],
  ['/icon.svg', ['image/svg+xml', ICON]],
]);

/** The prefix binds the cookie to this host, and to HTTPS. Browsers take localhost for secure. */
const COOKIE = '__Host-promo-console';
const COOKIE_RULES = 'Path=/; Secure; HttpOnly; SameSite=Strict';

type Handle = (request: ConsoleRequest) => Promise<ConsoleAnswer>;

export function makeConsoleHandler(deps: ConsoleHandlerDeps): Handle {
  const { tokens, wrongTokens, openPage, wallNow, clock, logger, metrics } = deps;
  const logLimited = limitLines(logger, clock);
  const nowSeconds = () => Math.floor(wallNow() / 1_000);

  /** Who asks; undefined for nobody, or an answer to a wrong token. */
  function identify({ headers, sender }: ConsoleRequest): OperatorScope | ConsoleAnswer | undefined {
    const bearer = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
    if (bearer !== undefined) return readToken(bearer, sender);
    const session = cookieOf(headers.cookie);
    return session === undefined ? undefined : scopeOfSession(session, tokens(), nowSeconds());
  }

  /** A wrong token counts. Where its address has sent too many, even a right one is refused. */
  function readToken(given: string, sender: string): OperatorScope | ConsoleAnswer {
    const seconds = wrongTokens.waitOf(sender);
    if (seconds > 0) {
      const fault = `Too many wrong tokens came from your address. Try again in ${seconds} s.`;
      return signIn(429, { fault, headers: { 'retry-after': String(seconds) } });
    }
    const scope = scopeOfToken(given, tokens());
    if (scope !== undefined) return scope;
    wrongTokens.note(sender);
    metrics.consoleWrongTokens.inc();
    logLimited(`token ${sender}`, { sender }, 'wrong token of the console');
    return signIn(401, { fault: 'This token is not known. Ask support for the token of your operator.' });
  }

  function startSession({ body, headers, sender }: ConsoleRequest): ConsoleAnswer {
    const site = headers['sec-fetch-site'] ?? 'none';
    if (site !== 'same-origin' && site !== 'none')
      return signIn(403, { fault: 'The form of another page was sent. Sign in on this page.' });
    const form = new URLSearchParams(body);
    const token = (form.get('token') ?? '').trim();
    const scope = readToken(token, sender);
    if ('status' in scope) return scope;
    const { operator } = scope;
    logLimited(`session ${operator}`, { operator }, 'session of the console started', 'info');
    const session = makeSession(scope, token, nowSeconds());
    return redirect(
      ownAddress(form.get('to')),
      `${COOKIE}=${session}; Max-Age=${SESSION_SECONDS}; ${COOKIE_RULES}`,
    );
  }

  async function showPage(
    page: Page,
    { pathname, searchParams }: URL,
    scope: OperatorScope,
  ): Promise<ConsoleAnswer> {
    let shown: readonly ShownQuery[] = [];
    const failed = (status: number, title: string, content: Html, headers = {}) =>
      document(status, frame({ title, content, scope, path: pathname, shown }), headers);
    try {
      const parameters = readParameters(searchParams, page.parameters, wallNow());
      const content = await openPage(scope, (reader) => {
        shown = reader.shown;
        return page.render(reader, parameters);
      });
      return document(200, frame({ title: page.title, content, scope, path: pathname, shown }));
    } catch (error) {
      if (error instanceof BadParameter)
        return failed(400, 'The address has a fault', html`<p class="error">${error.message}</p>`);
      if (error instanceof ReaderIsBusy)
        return failed(
          503,
          'Too many pages at once',
          html`<p class="error">Other pages of the console are being read. Load this page again in a few seconds.</p>`,
          { 'retry-after': '3' },
        );
      // The message of the store could name another operator's data.
      const line = { error: messageOf(error), operator: scope.operator, path: pathname };
      logLimited(`page ${scope.operator}`, line, 'cannot show a page of the console', 'error');
      const isStore = error instanceof StoreError;
      return failed(
        isStore ? 503 : 500,
        isStore ? 'The database does not answer' : 'The page failed',
        html`<p class="error">${isStore ? 'Nothing can be read now. Load this page again in a minute.' : 'This is a fault of the console. Report it to support, with the time.'}</p>`,
        isStore ? { 'retry-after': '60' } : {},
      );
    }
  }

  /** @param onPage called with the path of the page that the answer shows */
  async function answer(request: ConsoleRequest, onPage: (path: string) => void): Promise<ConsoleAnswer> {
    const { method, url } = request;
    const file = FILES.get(url);
    const isReading = method === 'GET' || method === 'HEAD';
    if (isReading && file !== undefined)
      return { status: 200, headers: { 'content-type': file[0] }, body: file[1] };
    if (!URL.canParse(url, 'http://console')) return signIn(400, { fault: 'The address is not valid.' });
    const address = new URL(url, 'http://console');
    if (method === 'POST' && address.pathname === '/sign-in') return startSession(request);
    if (method === 'POST' && address.pathname === '/sign-out')
      return redirect('/', `${COOKIE}=; Max-Age=0; ${COOKIE_RULES}`);
    if (!isReading) return signIn(405, { fault: 'The console only reads.', headers: { allow: 'GET, HEAD' } });
    if (address.pathname === '/sign-in') return signIn(200, { to: address.searchParams.get('to') });
    const asker = identify(request);
    if (asker !== undefined && 'status' in asker) return asker;
    if (asker === undefined) return demandSignIn(request, address);
    const page = PAGES.get(address.pathname);
    if (page === undefined)
      return document(
        404,
        frame({ title: 'No such page', content: html`<p><a href="/">Overview</a></p>`, scope: asker }),
      );
    onPage(address.pathname);
    return showPage(page, address, asker);
  }

  return async (request) => {
    const began = performance.now();
    let page = 'other';
    const answered = await answer(request, (path) => {
      page = path;
    });
    metrics.consoleRequests.inc({ page, status: String(answered.status) });
    metrics.consoleSeconds.observe({ page }, (performance.now() - began) / 1_000);
    return answered;
  };
}

const HTML = { 'content-type': 'text/html; charset=utf-8' };

function document(
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): ConsoleAnswer {
  return { status, headers: { ...HTML, ...headers }, body };
}

function redirect(location: string, cookie: string): ConsoleAnswer {
  return { status: 303, headers: { location, 'set-cookie': cookie }, body: '' };
}

interface SignIn {
  readonly fault?: string;
  /** The page after the sign-in. */
  readonly to?: string | null;
  /** A link of another site sends no cookie. */
  readonly isFromElsewhere?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The form of the sign-in. */
function signIn(
  status: number,
  { fault, to = '/', isFromElsewhere = false, headers = {} }: SignIn,
): ConsoleAnswer {
  const content = html`${fault !== undefined && html`<p class="error" role="alert">${fault}</p>`}
${isFromElsewhere && html`<p>Signed in already? <a href="${ownAddress(to)}">Open the page</a>.</p>`}
<form class="sign-in" action="/sign-in" method="post">
<label>Token of your operator <input type="password" name="token" required autocomplete="current-password"></label>
<input type="hidden" name="to" value="${ownAddress(to)}"><button>Sign in</button></form>
<p class="note">The console only reads. A session lasts 12 hours, and needs HTTPS, or localhost. Programs send <code>Authorization: Bearer TOKEN</code> instead.</p>`;
  return document(status, frame({ title: 'Sign in', content, scope: null }), {
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
    ...headers,
  });
}

/** A browser goes to the form, and comes back afterwards. A program reads the status. */
function demandSignIn({ headers }: ConsoleRequest, { pathname, search }: URL): ConsoleAnswer {
  const to = `${pathname}${search}`;
  // The cookie is not sent with a link of another site. The same link on a page of the console sends it.
  if (headers['sec-fetch-site'] === 'cross-site') return signIn(200, { to, isFromElsewhere: true });
  if (headers.accept?.includes('text/html') !== true) return signIn(401, { to });
  return { status: 303, headers: { location: linkTo('/sign-in', { to: ownAddress(to) }) }, body: '' };
}

/** An address of a page of the console; the overview for any other. */
function ownAddress(to: string | null): string {
  if (to === null || !URL.canParse(to, 'http://console')) return '/';
  const { host, pathname, search } = new URL(to, 'http://console');
  return host === 'console' && PAGES.has(pathname) ? `${pathname}${search}` : '/';
}

function cookieOf(header: string | undefined): string | undefined {
  const found = (header ?? '').split(';').map((each) => each.trim());
  return found.find((each) => each.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1);
}
