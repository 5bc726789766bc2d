/** The frame of every page, and the pieces that pages share. Pure. */
import { type Column, shownText, table } from '../markup/elements';
import { type Html, html } from '../markup/html';
import { linkTo, RANGES, type TimeRange, timeText } from './parameters';
import { QUERY_WITHIN_MS, type ShownQuery } from './reader';
import { type OperatorScope, ownNameOf } from './scope';

export interface Framed {
  readonly title: string;
  readonly content: Html;
  /** Null before the sign-in. */
  readonly scope: OperatorScope | null;
  /** The path of the page. */
  readonly path?: string;
  readonly shown?: readonly ShownQuery[];
}

const MENU = [
  ['/', 'Overview'],
  ['/connections', 'Connections'],
  ['/duplicates', 'Duplicates that differ'],
  ['/anomalies', 'Anomalies'],
  ['/promotions', 'Promotions'],
] as const;

/** The whole document. */
export function frame({ title, content, scope, path, shown = [] }: Framed): string {
  const head = scope === null ? html`<p class="brand">promo-intake console</p>` : signedIn(scope, path);
  const page = html`<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} - promo-intake console</title>
<link rel="stylesheet" href="/console.css">
<link rel="icon" href="/icon.svg">
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>${head}</header>
<main id="content" tabindex="-1">
<h1>${title}</h1>
${content}
${sqlOf(shown)}
</main>
</body>
</html>
`;
  return `<!doctype html>\n${page}`;
}

function signedIn({ operator }: OperatorScope, path: string | undefined): Html {
  const items = MENU.map(([to, label]) => {
    const current = to === path && html`aria-current="page"`;
    return html`<li><a href="${to}" ${current}>${label}</a></li>`;
  });
  return html`<p class="brand">promo-intake console</p>
<nav aria-label="Pages"><ul>${items}</ul></nav>
<form class="sign-out" action="/sign-out" method="post"><span>Operator <strong>${shownText(operator)}</strong></span><button>Sign out</button></form>
<div class="find"><form class="search" action="/event" method="get" role="search" aria-label="Find an event"><label>Event <input name="id" required autocomplete="off" placeholder="event_id"></label><button>Find</button></form>
<form class="search" action="/round" method="get" role="search" aria-label="Find a round"><label>Round <input name="id" required autocomplete="off" placeholder="round_id"></label><button>Find</button></form></div>`;
}

/** The queries of a page, as one can paste them into psql. */
function sqlOf(shown: readonly ShownQuery[]): Html | null {
  if (shown.length === 0) return null;
  const queries = shown.map(
    ({ title, sql }) => html`<h3>${title}</h3><pre tabindex="0"><code>${sql}</code></pre>`,
  );
  const label = shown.length === 1 ? 'The query' : `The ${shown.length} queries`;
  return html`<section class="sql" aria-label="SQL"><h2>SQL</h2><details><summary>${label} of this page</summary>
<p>Times are UTC. The role <code>reader</code> may run them: <code>psql</code> prints the same rows.</p>${queries}</details></section>`;
}

/** "2026-11-27 05:00:00.123" of the store's text. The page says that times are UTC. */
export function shownTime(stored: string | null): Html | null {
  if (stored === null) return null;
  const [, date = '', time = ''] = /^(\S+) ([\d:]+(?:\.\d{1,3})?)/.exec(stored) ?? [];
  return html`<time datetime="${date}T${time}Z">${date} ${time}</time>`;
}

export interface Linked {
  readonly feed_id: string | null;
  readonly event_id?: string | null;
  readonly round_id?: string | null;
}

/** The end of an id that promo.stored_id has shortened. No look-up finds the event by it. */
const SHORTENED = /\.\.\. sha256:[0-9a-f]{64}$/;

export function eventLink(scope: OperatorScope, { feed_id, event_id = null }: Linked): Html | null {
  if (event_id === null || feed_id === null) return null;
  if (SHORTENED.test(event_id)) return html`<span class="id">${shownText(event_id)}</span>`;
  const to = linkTo('/event', { feed: ownNameOf(scope, feed_id), id: event_id });
  return html`<a class="id" href="${to}">${shownText(event_id)}</a>`;
}

export function roundLink(scope: OperatorScope, { feed_id, round_id = null }: Linked): Html | null {
  if (round_id === null || feed_id === null) return null;
  const to = linkTo('/round', { feed: ownNameOf(scope, feed_id), id: round_id });
  return html`<a class="id" href="${to}">${shownText(round_id)}</a>`;
}

/** The choice of the range of time, as links. */
export function rangeChoice(
  path: string,
  range: TimeRange,
  kept: Readonly<Record<string, string>> = {},
): Html {
  const items = Object.entries(RANGES).map(([name, { label }]) => {
    const current = name === range.name && html`aria-current="true"`;
    const until = range.isCurrent ? undefined : timeText(range.until);
    return html`<li><a href="${linkTo(path, { ...kept, range: name, until })}" ${current}>${label}</a></li>`;
  });
  const earlier = linkTo(path, { ...kept, range: range.name, until: timeText(range.since) });
  const newest = range.isCurrent
    ? null
    : html`<li><a href="${linkTo(path, { ...kept, range: range.name })}">Newest</a></li>`;
  return html`<nav class="range" aria-label="Range of time"><ul>${items}<li><a href="${earlier}">Earlier</a></li>${newest}</ul></nav>
<p class="note">${timeText(range.since).replace('T', ' ')} to ${timeText(range.until).replace('T', ' ')}. All times are UTC.</p>`;
}

/** The form of a page that shows one event or one round, where the address names none. */
export function idForm(path: string, name: string, feed: string): Html {
  return html`<p>Enter the ${name} as you sent it.</p>
<form class="sign-in" action="${path}" method="get"><label>${name} <input name="id" required autocomplete="off"></label>
<label>Feed, if it is not your own one <input name="feed" value="${feed}" autocomplete="off"></label><button>Find</button></form>`;
}

const ENDED = `The database did not answer within ${QUERY_WITHIN_MS / 1_000} s, and the query was ended.`;

/** In place of the rows of a range of time. */
export const TOO_SLOW = html`<p class="warning" role="status">${ENDED} Choose a shorter range of time.</p>`;

/** On a page of one event, round or promotion: its missing parts may exist. */
export const INCOMPLETE = html`<p class="warning" role="status">${ENDED} This page is incomplete: load it again in a minute.</p>`;

/** The rows of a range of time, or why there are none. */
export function rangeTable<R>(
  {
    rows,
    isTooSlow,
    hasMore,
  }: { readonly rows: readonly R[]; readonly isTooSlow: boolean; readonly hasMore: boolean },
  caption: string,
  columns: readonly Column<R>[],
): Html {
  return html`${isTooSlow && TOO_SLOW}
${!isTooSlow && rows.length === 0 && html`<p>None.</p>`}
${rows.length > 0 && table(caption, columns, rows)}
${hasMore && html`<p class="note">There are more. Choose a shorter or an earlier range.</p>`}`;
}
