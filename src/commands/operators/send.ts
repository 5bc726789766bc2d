/**
 * `promo-intake send FILE`: sends the events of a file to a webhook, and prints the verdicts. A batch without
 * an answer is sent again. Those of its events that were decided are then duplicates.
 */

import { isUtf8 } from 'node:buffer';
import { isBatchOfEvents, type Line, readEvents, readLines } from '../../check/lines';
import { MAX_BYTES, MAX_EVENTS, MAX_VALUES } from '../../check/request-limits';
import { makeTally } from '../../check/tally';
import { DONE, FAILED } from '../../cli/exit-codes';
import { openText } from '../../cli/open-text';
import { print } from '../../cli/output';
import { ConfigError, readConfig } from '../../config/config';
import { bodyBytes, valuesOf } from '../../domain/event/request-body';
import { whyUnreadable } from '../../domain/event/unreadable';
import { nameOf } from '../../domain/verdict/reasons';
import { parseJson } from '../../lib/json';
import { asSentence } from '../../lib/printable';
import { endOfName } from '../../publishing/sentence';
import { type ReceivedVerdict, sendBatch, type WebhookTarget } from '../../webhook/client';
import { SEND_SETTINGS } from '../shared/settings';
import { type RequestPart, RequestParts } from './request-parts';
import { untilAnswered } from './signed-retry';
import { targetOf } from './webhook-target';

export interface SendCommandOptions {
  /** `-` is standard input. */
  readonly file: string;
  readonly url: string;
  readonly connection: string;
  /** Print a JSON object for each event instead of text for people. */
  readonly json: boolean;
  /** Ask for the verdicts, and have nothing stored. */
  readonly isRehearsal: boolean;
}

/** The limits of a request. */
const LIMITS = { events: MAX_EVENTS, values: MAX_VALUES };
const PROGRESS_MS = 5_000;

/** @returns the exit code: 1 where an event is rejected or was not sent */
export async function send(
  { file, url, connection, json, isRehearsal }: SendCommandOptions,
  stop: AbortSignal,
): Promise<number> {
  const secrets = readConfig(process.env, SEND_SETTINGS).WEBHOOK_SECRETS;
  const target = { ...targetOf(url, connection, secrets), isRehearsal };
  const tally = makeTally();
  const began = performance.now();
  let nextLine = 1;
  let unsent = 0;
  let rejected = 0;
  const report = (text: string) => console.error(`${file}${text}`);
  const progress = setInterval(() => report(`: line ${nextLine}, ${tally.summary()}`), PROGRESS_MS);

  /** @returns whether to go on with the next batch */
  async function sendAll(batch: readonly SendableLine[]): Promise<boolean> {
    const verdicts = await sendUntilAnswered(target, batch, report, stop);
    if (verdicts === null) return false;
    for (const verdict of verdicts) tally.add(verdict);
    rejected += verdicts.filter(({ standing }) => standing.verdict === 'rejected').length;
    await print(batch.map(({ number }, index) => describe(file, number, verdicts[index], json)).join(''));
    nextLine = (batch.at(-1)?.number ?? 0) + 1;
    return true;
  }

  let isEnded = false;
  let isDocument = false;
  let failure: unknown;
  try {
    // A proxy that sends each path to one address would have the events decided, and use their ids up.
    if (isRehearsal && (await sendUntilAnswered(target, [], report, stop)) === null) return FAILED;
    const batch = new RequestParts<SendableLine>(LIMITS);
    const notice = (text: string, isOne: boolean) => {
      isDocument = isOne;
      report(`: ${text}`);
    };
    read: for await (const lines of readEvents(readLines(openText(file, 'send', stop)), notice)) {
      for (const line of lines) {
        const event = sendable(line);
        if (typeof event === 'string') {
          unsent++;
          report(`:${line.number}: not sent: ${event}`);
          continue;
        }
        if (!batch.fits(event) && !(await sendAll(batch.take()))) break read;
        batch.add(event);
      }
    }
    isEnded = batch.isEmpty || (await sendAll(batch.take()));
  } catch (error) {
    // Nothing was read, so there is nothing to sum up.
    if (error instanceof ConfigError) throw error;
    if (!stop.aborted) failure = error;
  } finally {
    clearInterval(progress);
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const done = isRehearsal ? 'rehearsed, nothing stored,' : 'sent';
  const summary = `${file}: ${done} in ${seconds} s; ${tally.summary()}${unsent > 0 ? `; ${unsent} not sent` : ''}\n`;
  if (json) process.stderr.write(summary);
  else await print(summary);
  // A line of a document may hold many events, and a document from another line on is not valid JSON.
  const goOn = isDocument ? 'Send the whole file again' : `Continue from line ${nextLine}`;
  if (!isEnded)
    report(
      `: ${stop.aborted ? 'interrupted' : 'stopped'}. ${goOn}: events that are sent twice are duplicates.`,
    );
  if (failure !== undefined) throw failure;
  return isEnded && unsent === 0 && rejected === 0 ? DONE : FAILED;
}

type SendableLine = RequestPart & Pick<Line, 'number'>;

/**
 * The line, or the reason not to send it: a single line that is not JSON would have its whole batch refused.
 */
function sendable({ number, bytes }: Line): SendableLine | string {
  if (bytes === null || bodyBytes(1, bytes.length) > MAX_BYTES)
    return `it is longer than ${MAX_BYTES} bytes, the limit of a request`;
  const json = isUtf8(bytes) ? parseJson(bytes.toString('utf8')) : undefined;
  if (json === undefined) return `it is not JSON: it ${whyUnreadable(bytes)}`;
  if (isBatchOfEvents(json)) return 'it is a batch itself: write one event per line';
  const event = { number, bytes, values: valuesOf(bytes) };
  // Its bytes fit, so its values are too many.
  return new RequestParts(LIMITS).fits(event) ? event : `it has more than ${MAX_VALUES} JSON values`;
}

/** Retries until the webhook answers. @returns null if the batch is refused, or on a stop signal */
async function sendUntilAnswered(
  target: WebhookTarget,
  batch: readonly SendableLine[],
  report: (text: string) => void,
  stop: AbortSignal,
): Promise<readonly ReceivedVerdict[] | null> {
  const lines =
    batch.length === 0 ? 'an empty rehearsal' : `lines ${batch[0]?.number}-${batch.at(-1)?.number}`;
  const events = batch.map(({ bytes }) => bytes);
  const reports = {
    refused: (because: string) =>
      report(`: ${lines} ${batch.length === 0 ? 'was' : 'were'} not accepted: ${because}`),
    retried: (because: string, seconds: number) =>
      report(`: ${lines} will be sent again in ${seconds} s: ${because}`),
  };
  const sent = await untilAnswered((id) => sendBatch(target, id, events, stop), reports, stop);
  return sent?.verdicts ?? null;
}

/**
 * The output for an event. Empty for an accepted event, and for a duplicate of one: an earlier attempt may
 * have decided the event and lost its answer.
 */
function describe(
  file: string,
  line: number,
  received: ReceivedVerdict | undefined,
  isJson: boolean,
): string {
  if (received === undefined) return '';
  if (isJson) return `${JSON.stringify({ line, ...received.json })}\n`;
  const { verdict, remedy, standing, contentDiffers } = received;
  if (standing.verdict === 'accepted' && !contentDiffers) return '';
  const [detail, ...further] = received.details;
  const first = nameOf(standing);
  const name = verdict === 'duplicate' ? `duplicate of ${first}` : first;
  const parts = [
    contentDiffers ? ', with other content' : '',
    detail === undefined ? endOfName(standing.reason) : `  ${asSentence(detail)}`,
  ];
  const main = `${file}:${line}: ${name}${parts.join('')}${remedy === null ? '' : ` ${remedy}`}\n`;
  return main + further.map((each) => `${file}:${line}: also  ${asSentence(each)}\n`).join('');
}
