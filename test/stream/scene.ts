/** A webhook with an operator of its own, for the tests of a file. */
import type { OperatorEntry } from '../../src/domain/reference';
import { anOperator } from '../support/builders';
import { type Answered, aSecret, type RunningWebhook, senderTo, startWebhook } from '../support/webhook';
import type { RunningCommand, Settings } from '../support/worker';
import { connectionOf, inWorld, type World } from './world';

export const HOOK = 'acme-hook';
/** The secret of HOOK. */
export const secret = aSecret();

/** An operator that sends by Kafka and by the webhook, into one feed. */
export const operators = (topics: Readonly<Record<string, string>>): OperatorEntry[] => [
  anOperator({
    connections: [
      ...Object.values(topics).map((topic) => connectionOf(topic)),
      { id: HOOK, transport: 'webhook' },
    ],
  }),
];

export const topics = { main: 1 };
export type Sending = (...request: Parameters<ReturnType<typeof senderTo>>) => Promise<Answered>;

export interface Scene {
  readonly world: World<'main'>;
  readonly webhook: RunningWebhook;
  readonly send: Sending;
}

/** A world with a webhook in it. */
export function withWebhook(more: Settings, work: (scene: Scene) => Promise<void>): Promise<void> {
  return inWorld({ topics, operators }, async (world) => {
    const webhook = await startWebhook({ DATABASE_URL: world.writerUrl, ...more }, { [HOOK]: secret });
    await work({ world, webhook, send: senderTo(webhook.port, HOOK, secret) });
  });
}

/** Delays all decisions until the transaction is committed, so that they may come too late. */
export const LOCK_KEYS = 'begin; lock table promo_store.event_keys in access exclusive mode';

/** How often the webhook has dropped a connection for a reason. */
export const dropped = (command: RunningCommand, why: string): Promise<number> =>
  command.metric(`promo_intake_webhook_dropped_total{why="${why}"}`);

/** Number of requests that were answered with a status, or that broke off. */
export const answered = (command: RunningCommand, status: string | number): Promise<number> =>
  command.metric(`promo_intake_webhook_requests_total{status="${status}"}`);
