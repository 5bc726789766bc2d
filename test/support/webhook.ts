/** The webhook as users run it, and a sender that signs by the Standard Webhooks specification. */
import { randomBytes, randomUUID } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { isObject } from '../../src/lib/json';
import { RunningCommand, type Settings } from './worker';

const ANSWER_DEADLINE_MS = 60_000;

export const aSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

/** The answer to a request. */
export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** "accepted", "skipped/zero_amount", "duplicate of accepted, differs" ... of each event. */
  readonly verdicts: readonly string[];
}

export interface SendOptions {
  readonly method?: string;
  readonly path?: string;
  readonly at?: Date;
  readonly secret?: string;
  /** Undefined: a header that is not sent. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

/** Sends requests of one connection. A text is sent unchanged. */
export function senderTo(port: number, connectionId: string, secret: string) {
  return async (content: unknown, options: SendOptions = {}): Promise<Answered> => {
    const body = typeof content === 'string' ? content : JSON.stringify(content);
    const {
      method = 'POST',
      at = new Date(),
      path = `/v1/events/${encodeURIComponent(connectionId)}`,
    } = options;
    const id = `msg_${randomUUID()}`;
    const headers: Record<string, string | undefined> = {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(options.secret ?? secret).sign(id, at, body),
      ...options.headers,
    };
    const given = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, value]],
    );
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: given,
      ...(method === 'GET' ? {} : { body }),
      signal: AbortSignal.timeout(ANSWER_DEADLINE_MS),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, verdicts: verdictsOf(text) };
  };
}

function verdictsOf(text: string): string[] {
  const answer: unknown = JSON.parse(text);
  if (!isObject(answer) || !Array.isArray(answer.verdicts)) return [];
  return answer.verdicts.map(verdictOf);
}

/**
 * See Answered.
 * @param report the verdict on an event, from an answer or from a message of the verdict topic
 */
export function verdictOf(report: unknown): string {
  if (!isObject(report)) throw new Error(`no verdict: ${JSON.stringify(report)}`);
  const named = (verdict: unknown, reason: unknown) =>
    reason === null ? `${verdict}` : `${verdict}/${reason}`;
  if (report.verdict !== 'duplicate') return named(report.verdict, report.reason);
  return `duplicate of ${named(report.first_verdict, report.first_reason)}${report.content_differs === true ? ', differs' : ''}`;
}

/** A running webhook. */
export interface RunningWebhook {
  readonly command: RunningCommand;
  readonly port: number;
}

/** Starts `webhook` on free ports, and waits until it serves requests. */
export async function startWebhook(
  settings: Settings,
  secrets: Readonly<Record<string, string | readonly string[]>>,
): Promise<RunningWebhook> {
  const command = new RunningCommand(['webhook'], {
    HTTP_PORT: '0',
    WEBHOOK_PORT: '0',
    WEBHOOK_SECRETS: JSON.stringify(secrets),
    ...settings,
  });
  const { port } = await command.waitForLog('webhook started');
  return { command, port: Number(port) };
}
