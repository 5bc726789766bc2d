/** Promotions over the feed and three players: a late login, a refund after the race, and a last gem. */
import { join } from 'node:path';
import type { Client } from 'pg';
import type { Child } from '../servers/child';
import { until } from '../servers/deadline';
import { type Message, OPERATOR, readMessages } from './own-topic';
import type { EventJson } from './play';
import { count, type Screen, table } from './screen';
import type { Stage } from './stage';
import { startWebhook, type Webhook } from './webhook';
import { TOPIC_PREFIX } from './world';

const FILE = join('dev', 'demo', 'promotions.yaml');
const PLAYERS = ['demo-maja', 'demo-olav', 'demo-siri'];
const BET_OF_RACE = 'demo-race-1-bet';
const COUNT_DEADLINE_MS = 60_000;
const DAY_MS = 86_400_000;

const LAST_VERDICT = 'select max(verdict_id)::text as last from promo.verdicts';
const IS_COUNTED = 'select up_to_verdict_id >= $1 as counted from promo.promotion_coverage';

/** Values of the players, such as "ruby 1 of 2". A leaderboard has points, and a place on its board. */
const PROGRESS = `
select p.promotion_id || ', ' || p.player_ref as place, string_agg(case p.type
    when 'leaderboard' then format('%s points, rank %s', trim_scale(p.points),
      (select b.rank from promo.leaderboard_with_players(p.operator_id, p.promotion_id, p.window_key) b where b.player_ref = p.player_ref))
    when 'login_streak' then format('%s of %s days', p.value, p.target)
    else format('%s %s of %s', p.item, trim_scale(p.value), trim_scale(p.target)) end, ', ' order by p.item desc) as shown
from promo.promotion_progress p where p.operator_id = $1 and p.player_ref = any($2) group by 1`;

const COMPLETIONS = `
select c.promotion_id || ', ' || c.player_ref as place, string_agg(case when p.type = 'leaderboard' then format('rank %s ', c.ordinal) else '' end
    || case when c.holds then 'completed' else 'revoked' end, ', ' order by c.entry_no) as shown
from promo.completions c join promo.promotions p using (operator_id, promotion_id)
where c.operator_id = $1 and c.player_ref = any($2) and c.change = 'completed' group by 1`;

const TOTALS = `
select count(distinct player_ref)::int as players,
  (select count(*)::int from promo.completions where operator_id = $1 and change = 'completed') as completions
from promo.promotion_progress where operator_id = $1`;

const WHY_NOT = 'select promotion_id, why from promo.why_not($1, $2) order by promotion_id';

export async function reportPromotions(stage: Stage, client: Client, screen: Screen): Promise<void> {
  screen.passing('promotions', 'promo-intake promotions apply ...');
  const applied = (await stage.run('promotions', 'apply', FILE)).trimEnd().split('\n').at(-1) ?? '';
  const counting = stage.start('promotions');
  const begin = performance.now();
  const webhook = await startWebhook(stage);
  const { first, later } = eventsOf(Date.now());
  await sendAccepted(webhook, first);
  await untilCounted(counting, client);
  const seconds = ((performance.now() - begin) / 1_000).toFixed(1);
  const before = await textsOf(client, PROGRESS);
  const { rows: totals } = await client.query<{ players: number; completions: number }>(TOTALS, [OPERATOR]);
  await sendAccepted(webhook, later);
  await untilCounted(counting, client);
  const [now, completions] = [await textsOf(client, PROGRESS), await textsOf(client, COMPLETIONS)];
  const { rows: reasons } = await client.query<{ promotion_id: string; why: string }>(WHY_NOT, [
    OPERATOR,
    BET_OF_RACE,
  ]);
  await Promise.all([webhook.stop(), counting.stop()]);

  const [{ players, completions: completed } = { players: 0, completions: 0 }] = totals;
  screen.heading('Promotions: a login that comes late, a refund after the race, and a last gem');
  screen.line(`  promo-intake promotions apply ${FILE}: ${applied}.`);
  screen.line(`  promo-intake promotions has counted all verdicts ${seconds} s after its start:`);
  screen.line(
    `  ${count(players)} players of ${OPERATOR} have progress, with ${count(completed)} completions.`,
  );
  screen.line('  Then the webhook takes the login of three days ago, the refund, and the end of a round:');
  const places = [...new Set([...before.keys(), ...now.keys()])].sort();
  const lines = places.map((place) => [
    ...[`  ${place}`, before.get(place) ?? '', now.get(place) ?? '', completions.get(place) ?? ''],
  ]);
  for (const text of table([['  promotion, player', 'before', 'now', 'completions'], ...lines]))
    screen.line(text);
  screen.line(`  Why does the bet of demo-maja not count? promo.why_not('${OPERATOR}', '${BET_OF_RACE}'):`);
  for (const text of table(reasons.map(({ promotion_id, why }) => [`    ${promotion_id}`, why])))
    screen.line(text);
  await reportCompletions(stage, client, screen, PLAYERS);
}

/** The events of the three players, by the order in which they are sent. All occurred days ago. */
function eventsOf(nowMs: number): { readonly first: EventJson[]; readonly later: EventJson[] } {
  // Noon in UTC is on the same day in Oslo. No event of the feed is so old.
  const noon = (daysAgo: number) => new Date(Math.floor(nowMs / DAY_MS - daysAgo) * DAY_MS + DAY_MS / 2);
  const login = (daysAgo: number): EventJson => ({
    event_id: `demo-login-${daysAgo}`,
    brand: 'nordlys',
    kind: 'login',
    player_ref: 'demo-olav',
    occurred_at: noon(daysAgo).toISOString(),
  });
  const round = (id: string, player_ref: string, game: string, amount: string) => {
    const event = (kind: string): EventJson => ({
      event_id: `${id}-${kind}`,
      round_id: id,
      brand: 'nordlys',
      player_ref,
      kind,
      amount,
      currency: 'EUR',
      game: { id: game },
      occurred_at: noon(2).toISOString(),
    });
    return { bet: event('bet'), settled: event('settled'), refund: event('refund') };
  };
  const maja = round('demo-race-1', 'demo-maja', 'aurora-reels', '30.00');
  const olav = round('demo-race-2', 'demo-olav', 'herring-run', '20.00');
  const [ruby, otherRuby, pearls] = [
    round('demo-gem-1', 'demo-siri', 'aurora-reels', '1.00'),
    round('demo-gem-2', 'demo-siri', 'aurora-reels', '1.00'),
    round('demo-gem-3', 'demo-siri', 'trolls-gold', '5.00'),
  ];
  return {
    first: [
      ...[login(4), login(2), maja.bet, maja.settled, olav.bet, olav.settled],
      ...[ruby.bet, ruby.settled, otherRuby.bet, pearls.bet, pearls.settled],
    ],
    later: [login(3), maja.refund, otherRuby.settled],
  };
}

async function sendAccepted(webhook: Webhook, events: readonly EventJson[]): Promise<void> {
  for (const { event_id, verdict, reason } of await webhook.send(events))
    if (verdict !== 'accepted') throw new Error(`${event_id} is ${verdict}: ${reason}`);
}

/** Waits until everything that is decided now is counted. */
async function untilCounted(counting: Child, client: Client): Promise<void> {
  const { rows: decided } = await client.query<{ last: string }>(LAST_VERDICT);
  await until('promotions are counted', COUNT_DEADLINE_MS, async () => {
    if (counting.endedBy !== undefined) throw counting.failure(`ended (${counting.endedBy})`);
    const { rows } = await client.query<{ counted: boolean }>(IS_COUNTED, [decided[0]?.last]);
    return rows[0]?.counted === true;
  });
}

/** The texts of a query by promotion and player. */
async function textsOf(client: Client, query: string): Promise<Map<string, string>> {
  const { rows } = await client.query<{ place: string; shown: string }>(query, [OPERATOR, PLAYERS]);
  return new Map(rows.map(({ place, shown }) => [place, shown]));
}

// --- the topic of completions of one operator, as a system reads it that credits rewards

const PUBLISH_DEADLINE_MS = 60_000;
const IS_PUBLISHED = `select (select max(entry_no) from promo.completions) <= published_up_to as published from promo.completion_publishing`;
/** Digits of an id that are shown. */
const ID_SHOWN = 8;

/** @param players those of whom the messages of rank 1 are shown, in their order */
async function reportCompletions(
  stage: Stage,
  client: Client,
  screen: Screen,
  players: readonly string[],
): Promise<void> {
  const topic = `${stage.topicHere(TOPIC_PREFIX)}completion.${OPERATOR}`;
  screen.passing('completions', 'promo-intake completions ...');
  const publishing = stage.start('completions');
  await until('completions are published', PUBLISH_DEADLINE_MS, async () => {
    if (publishing.endedBy !== undefined) throw publishing.failure(`ended (${publishing.endedBy})`);
    const { rows } = await client.query<{ published: boolean }>(IS_PUBLISHED);
    return rows[0]?.published === true;
  });
  await publishing.stop();
  const messages = await readMessages(stage, topic);
  screen.heading(`Completions, for the system that credits rewards: ${topic}`);
  screen.line(`  ${count(messages.length)} messages. The refund gave rank 1 of the race to another player:`);
  const ofRankOne = messages
    .filter(({ rank, player_ref }) => rank === 1 && players.includes(String(player_ref)))
    .sort((a, b) => Number(a.entry_no) - Number(b.entry_no));
  for (const message of ofRankOne) screen.line(`    ${shown(message)}`);
  screen.line('  Credit once for each completion_id, and take back what is revoked.');
}

function shown({ completion_id, change, player_ref, rank }: Message): string {
  const id = `${String(completion_id).slice(0, ID_SHOWN)}...`;
  const json = JSON.stringify({ completion_id: id, change, player_ref, rank });
  return `${json.slice(0, -1)}, ...}`;
}
