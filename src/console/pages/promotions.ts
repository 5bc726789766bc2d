/** The operator's promotions: all of them, one with its misses, and one player. Pure. */
import { type Column, facts, numberText, shownText, table } from '../../markup/elements';
import { type Html, html } from '../../markup/html';
import { missMeaning } from '../../promotions/preview';
import { eventLink, INCOMPLETE, rangeChoice, rangeTable, shownTime } from '../layout';
import { linkTo, type Parameters, timeText } from '../parameters';
import { QUERIES } from '../queries';
import type { PageReader } from '../reader';
import type { Columns } from '../scope';

type Shares = Columns<'below_half' | 'below_target' | 'reached'>;
const SHARES: readonly Column<Shares>[] = [
  { head: 'Below half', isNumber: true, cell: (row) => numberText(row.below_half) },
  { head: 'Half or more', isNumber: true, cell: (row) => numberText(row.below_target) },
  { head: 'Reached', isNumber: true, cell: (row) => numberText(row.reached) },
];

export async function promotionsPage(reader: PageReader): Promise<Html> {
  const found = await reader.read(QUERIES.promotions, {});
  return html`<p>Your promotions, and the window that counts now.</p>
${rangeTable(found, 'Your promotions', [
  { head: 'Promotion', cell: ({ promotion_id }) => promotionLink(promotion_id) },
  { head: 'Type', cell: ({ type }) => html`<code>${type}</code>` },
  { head: 'State', cell: ({ state }) => state },
  { head: 'Version', isNumber: true, cell: ({ version }) => version },
  { head: 'Window', cell: ({ window_key }) => window_key },
  { head: 'From', cell: ({ window_starts_at }) => shownTime(window_starts_at) },
  { head: 'To', cell: ({ window_ends_at }) => shownTime(window_ends_at) },
])}`;
}

export async function promotionPage(reader: PageReader, parameters: Parameters): Promise<Html> {
  const { range, promotion } = parameters;
  if (promotion === null) return promotionsPage(reader);
  const all = await reader.read(QUERIES.promotions, {});
  const own = all.rows.find(({ promotion_id }) => promotion_id === promotion);
  if (own === undefined && !all.isTooSlow) return unknown(promotion);
  const times = { promotion, since: timeText(range.since), until: timeText(range.until) };
  const windows = await reader.read(QUERIES.promotionWindows, { promotion });
  const players = await reader.read(QUERIES.promotionPlayers, { promotion });
  const completions = await reader.read(QUERIES.promotionCompletions, times);
  const misses = await reader.read(QUERIES.promotionMisses, times);
  const isBoard = own?.type === 'leaderboard';
  const valueName = (row: Value) => nameOf(row, isBoard);
  return html`<p class="id">${shownText(promotion)}</p>
${own !== undefined && stateOf(own)}
<h2>Windows</h2>
${windows.isTooSlow && INCOMPLETE}
${windows.rows.length === 0 && !windows.isTooSlow && html`<p>No player has progress yet.</p>`}
${
  windows.rows.length > 0 &&
  table(
    'Players by window and value, the newest window first',
    [
      { head: 'Window', cell: ({ window_key }) => window_key },
      { head: 'From', cell: ({ starts_at }) => shownTime(starts_at) },
      { head: 'To', cell: ({ ends_at }) => shownTime(ends_at) },
      { head: 'Value', cell: valueName },
      { head: 'Players', isNumber: true, cell: (row) => numberText(row.players) },
      ...(isBoard ? [] : SHARES),
    ],
    windows.rows,
  )
}
<h2>Players</h2>
${players.isTooSlow && INCOMPLETE}
${players.rows.length === 0 && !players.isTooSlow && html`<p>None.</p>`}
${
  players.rows.length > 0 &&
  table(
    'The first players of the newest windows',
    [
      { head: 'Player', cell: ({ player_id }) => playerLink(promotion, player_id) },
      { head: 'Window', cell: ({ window_key }) => window_key },
      { head: 'Value', cell: valueName },
      { head: 'Amount', isNumber: true, cell: ({ value }) => value },
      { head: 'Target', isNumber: true, cell: ({ target }) => target },
      {
        head: isBoard ? 'Points' : 'Share',
        isNumber: true,
        cell: ({ points, share }) =>
          points ?? (share === null ? null : `${numberText(Number(share) * 100)} %`),
      },
      { head: 'Completions', isNumber: true, cell: ({ completions: number }) => number },
      { head: 'Changed at', cell: ({ changed_at }) => shownTime(changed_at) },
    ],
    players.rows,
  )
}
<p class="note">Players are pseudonyms. A player without one is shown once it is computed.</p>
<h2>Completions and misses in a range of time</h2>
${rangeChoice('/promotion', range, { promotion })}
${rangeTable(completions, 'Completions by day', [
  { head: 'Day', cell: ({ day }) => day?.slice(0, 10) ?? null },
  { head: 'Completed', isNumber: true, cell: ({ completed }) => numberText(completed) },
  { head: 'Hold', isNumber: true, cell: ({ held }) => numberText(held) },
  { head: 'Revoked', isNumber: true, cell: ({ revoked }) => numberText(revoked) },
  { head: 'Confirmed', isNumber: true, cell: ({ confirmed }) => numberText(confirmed) },
])}
<h2>Events that did not count</h2>
${rangeTable(misses, 'Events of this range that do not count, by reason', [
  { head: 'Reason', cell: ({ reason }) => html`<code>${reason}</code>` },
  { head: 'Meaning', cell: ({ reason }) => missMeaning(reason ?? '') },
  { head: 'Events', isNumber: true, cell: ({ events }) => numberText(events) },
  { head: 'Newest', cell: ({ newest }) => shownTime(newest) },
  { head: 'Sample', cell: (row) => eventLink(reader.scope, row) },
])}`;
}

export async function promotionPlayerPage(
  reader: PageReader,
  { promotion, player }: Parameters,
): Promise<Html> {
  if (promotion === null || player === null)
    return html`<p>Choose a promotion, and then one of its players.</p><p><a href="/promotions">Promotions</a></p>`;
  const found = await reader.read(QUERIES.promotionStory, { promotion, player });
  return html`<p class="id">${shownText(player)}</p>
<p>In the promotion ${promotionLink(promotion)}.</p>
${rangeTable(found, 'What happened, in order', [
  { head: 'At', cell: ({ happened_at }) => shownTime(happened_at) },
  { head: 'What happened', cell: ({ what_happened }) => shownText(what_happened) },
  { head: 'Why', cell: ({ why }) => shownText(why) },
  { head: 'What next', cell: ({ what_next }) => shownText(what_next) },
])}`;
}

function stateOf(row: Columns<'type' | 'state' | 'version' | 'window_key'>): Html {
  return facts([
    ['Type', html`<code>${row.type}</code>`],
    ['State', row.state],
    ['Version', row.version],
    ['Window', row.window_key],
  ]);
}

function unknown(promotion: string): Html {
  return html`<p class="id">${shownText(promotion)}</p>
<p class="warning">You have no promotion of this name.</p>
<p><a href="/promotions">Your promotions</a></p>`;
}

type Value = Columns<'item' | 'currency'>;

/** Each value of a leaderboard belongs to a line of its points. */
function nameOf({ item, currency }: Value, isBoard: boolean): string {
  const parts = [isBoard ? `line ${item} of the points` : item, currency];
  return shownText(parts.filter((part) => part !== null && part !== '').join(isBoard ? ', ' : ' ')) || '-';
}

function promotionLink(promotion: string | null): Html | null {
  if (promotion === null) return null;
  return html`<a class="id" href="${linkTo('/promotion', { promotion })}">${shownText(promotion)}</a>`;
}

function playerLink(promotion: string, player: string | null): Html | string {
  if (player === null) return '-';
  return html`<a class="id" href="${linkTo('/promotion-player', { promotion, player })}">${shownText(player)}</a>`;
}
