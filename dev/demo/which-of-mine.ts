/** An operator compares a file of its day with the verdicts, and learns the next step for each fault. */
import { readFileSync, writeFileSync } from 'node:fs';
import { isObject, parseJson } from '../../src/lib/json';
import type { Message } from './own-topic';
import type { EventJson, FeedRecord } from './play';
import { count, type Screen } from './screen';
import type { Stage } from './stage';
import { SENDERS } from './world';

const FINE_LINES = 8;
const WIDTH = 108;
const INDENT = '       ';
/** It ends with this code where something has to be sent again or corrected. */
const TO_DO = 1;

/** The operator's records, by the event_id of an event that was sent once. */
type SentOnce = ReadonlyMap<string, EventJson>;

export async function reportWhichOfMine(
  stage: Stage,
  feed: readonly FeedRecord[],
  messages: readonly Message[],
  screen: Screen,
): Promise<void> {
  const lines = dayOf(sentOnce(feed), messages);
  const files = { day: 'day.ndjson', again: 'again.ndjson', faulty: 'faulty.ndjson' };
  writeFileSync(stage.file(files.day), `${lines.join('\n')}\n`);
  const outputs = ['--resend', stage.file(files.again), '--mend', stage.file(files.faulty)];
  const options = ['--connection', SENDERS.lobby.id, '--json', ...outputs];
  const output = await stage.runTo(TO_DO, 'reconcile', stage.file(files.day), ...options);
  const objects = output.split('\n').map(parseJson).filter(isObject);
  const faults = objects.filter(({ action }) => action !== undefined && action !== 'none');

  screen.heading(`Which of mine? A file of ${lines.length} lines with ${faults.length} faults`);
  const shown = ['--connection', SENDERS.lobby.id, '--resend', files.again, '--mend', files.faulty];
  screen.line(`  promo-intake reconcile ${files.day} ${shown.join(' ')}`);
  for (const fault of faults) for (const text of textsOf(fault)) screen.line(text);
  const linesIn = (name: string) => readFileSync(stage.file(name), 'utf8').split('\n').length - 1;
  screen.line(
    `  To send again: ${count(linesIn(files.again))} (${files.again}). To correct: ${count(linesIn(files.faulty))} (${files.faulty}).`,
  );
}

function textsOf({ line, state, reason, content_differs, first_line, details, remedy }: Message): string[] {
  const parts = [
    String(state).replaceAll('_', ' '),
    typeof reason === 'string' ? `/${reason}` : '',
    content_differs === true ? ', with other content' : '',
    first_line === undefined ? '' : ` (line ${first_line} has the same event_id)`,
  ];
  const detail: unknown = Array.isArray(details) ? details[0] : undefined;
  const fault = isObject(detail) ? `: ${String(detail.field) || 'payload'}: ${detail.detail}` : '';
  const head = `  ${String(line).padStart(3)}  ${parts.join('')}${fault}`;
  return [...wrapped(head), ...wrapped(`${INDENT}${remedy}`)];
}

function wrapped(text: string): string[] {
  if (text.length <= WIDTH) return [text];
  const end = text.lastIndexOf(' ', WIDTH);
  return [text.slice(0, end), ...wrapped(`${INDENT}${text.slice(end + 1)}`)];
}

function sentOnce(feed: readonly FeedRecord[]): SentOnce {
  const found = new Map<string, EventJson>();
  const twice = new Set<string>();
  for (const { value } of feed) {
    const json = typeof value === 'string' ? parseJson(value) : undefined;
    if (!isObject(json) || typeof json.event_id !== 'string') continue;
    if (found.has(json.event_id)) twice.add(json.event_id);
    found.set(json.event_id, json);
  }
  for (const id of twice) found.delete(id);
  return found;
}

/** The lines of the file: events that were sent, between them one line for each kind of fault. */
function dayOf(sent: SentOnce, messages: readonly Message[]): string[] {
  const ids: readonly unknown[] = [SENDERS.lobby.id, SENDERS.live.id];
  const own = messages.filter(({ connection_id }) => ids.includes(connection_id));
  const eventsWith = (verdict: string, reason: string | null): EventJson[] =>
    own.flatMap((message) => {
      if (message.verdict !== verdict || message.reason !== reason) return [];
      const event = sent.get(String(message.event_id));
      return event === undefined ? [] : [event];
    });
  const eventWith = (verdict: string, reason: string | null): EventJson => {
    const [event] = eventsWith(verdict, reason);
    if (event === undefined) throw new Error(`the feed has no ${verdict} event with the reason ${reason}`);
    return event;
  };
  const fine = eventsWith('accepted', null).filter(({ kind }) => kind === 'bet');
  const [bet, ...others] = fine;
  const place = own.find(({ event_id, reason }) => event_id === null && reason === 'no_idempotency_key');
  if (bet === undefined || others.length < FINE_LINES || !isObject(place?.source))
    throw new Error('the feed has too few events of its first operator');
  const lost = { ...bet, event_id: 'day-lost' };
  const { topic, partition, offset } = place.source;
  const faults = [
    JSON.stringify(lost),
    JSON.stringify({ ...lost, event_id: 'day-lost-and-wrong', amount: '12,50' }),
    ...['bad_amount', 'malformed', 'no_player', 'op_unknown', 'brand_unmapped', 'operator_inactive'].map(
      (reason) => JSON.stringify(eventWith('rejected', reason)),
    ),
    JSON.stringify({ ...others[0], amount: '999' }),
    JSON.stringify({ ...lost, amount: '999' }),
    JSON.stringify({ event_id: undefined, source: { topic, partition, offset } }),
    JSON.stringify(lost).slice(0, -9),
  ];
  const rest = others.slice(1, FINE_LINES + 1).map((event) => JSON.stringify(event));
  return faults.flatMap((fault, index) => [...rest.slice(index, index + 1), fault]);
}
