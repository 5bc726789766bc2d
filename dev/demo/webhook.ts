/** The same feed by HTTP: a round that arrived over Kafka is refunded through the webhook. */
import { writeFileSync } from 'node:fs';
import type { Client } from 'pg';
import { SPEC } from '../../src/domain/event/event';
import { isObject, parseJson } from '../../src/lib/json';
import type { EventJson } from './play';
import { type Screen, table } from './screen';
import { HOOK, type Stage } from './stage';

const START_MS = 30_000;
const READY = /"port":(\d+),"connections"/;

/** A round of the webhook's feed and brands that was not refunded. */
const ROUND = `
select v.round_id, v.brand, v.player_ref, v.currency, json_build_object('id', min(v.game_id)) as game, sum(v.amount)::text as amount
from promo.verdicts v join promo.rounds r on r.feed_id = v.feed_id and r.round_id = v.round_id
where v.feed_id = 'fjordspill' and v.brand = 'nordlys' and v.kind = 'bet' and v.currency = 'EUR' and v.counted and not r.refunded
group by 1, 2, 3, 4 order by 1 limit 1`;

const SUMS = `
select kind, currency, sum(amount)::text as sum from promo.ledger where feed_id = 'fjordspill' and round_id = $1 group by 1, 2 order by 1, 2`;

export interface Webhook {
  /** @returns the answer to each event */
  send(events: readonly EventJson[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
  stop(): Promise<void>;
}

export async function startWebhook(stage: Stage): Promise<Webhook> {
  const webhook = stage.start('webhook');
  await webhook.untilLogged(READY, START_MS);
  const url = `http://127.0.0.1:${READY.exec(webhook.output())?.[1]}`;
  return {
    async send(events) {
      const file = stage.file('hook.ndjson');
      writeFileSync(file, events.map((event) => JSON.stringify({ spec: SPEC, ...event })).join('\n'));
      const output = await stage.run('send', file, '--url', url, '--connection', HOOK, '--json');
      return output.split('\n').map(parseJson).filter(isObject);
    },
    stop: () => webhook.stop(),
  };
}

export async function refundByWebhook(stage: Stage, client: Client, screen: Screen): Promise<void> {
  const { rows } = await client.query<
    Record<'round_id' | 'brand' | 'player_ref' | 'currency' | 'amount', string> & { game: object }
  >(ROUND);
  const [round] = rows;
  if (round === undefined) throw new Error('the feed has no round without a refund');
  const sums = async () => {
    const { rows } = await client.query<{ kind: string; currency: string; sum: string }>(SUMS, [
      round.round_id,
    ]);
    return rows.map(({ kind, currency, sum }) => `${kind} ${sum} ${currency}`).join(', ');
  };
  const before = await sums();
  const webhook = await startWebhook(stage);
  const event = (event_id: string, kind: string) => ({
    event_id,
    kind,
    ...round,
    occurred_at: new Date().toISOString(),
  });
  const refund = event('demo-refund', 'refund');
  const answers = await webhook.send([refund, refund, event('demo-late-bet', 'bet')]);
  await webhook.stop();

  screen.heading('By the webhook: a refund over HTTP reverses events from Kafka');
  screen.line(`  Sums of round ${round.round_id}: ${before}.`);
  screen.line(`  promo-intake webhook receives three events of it at POST /v1/events/${HOOK}, and answers:`);
  const lines = answers.map(({ event_id, verdict, reason, first_verdict }) => [
    `  ${event_id}`,
    `${verdict}`,
    reason === null
      ? verdict === 'duplicate'
        ? `of the first, which is ${first_verdict}`
        : ''
      : `${reason}`,
  ]);
  for (const text of table(lines)) screen.line(text);
  screen.line(`  Net of the round now: ${await sums()}.`);
}
