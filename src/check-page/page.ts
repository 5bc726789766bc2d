/** The page that checks events: its state, and the reactions to the person who uses it. */

import { isUtf8 } from 'node:buffer';
import { connectionsOf, type Finding, findingJson, makeCheck, type Sighting, UNSENT } from '../check/finding';
import type { Connection } from '../domain/reference';
import { nameOf } from '../domain/verdict/reasons';
import { foreignTextOf } from '../lib/foreign-text';
import { describeFileFault, MAX_REFERENCE_BYTES, readReference } from '../reference-file/reference-file';
import { type Example, examples, reference, version } from './data';
import { byId, element } from './elements';
import { exampleBytes, listExamples } from './example-list';
import { findingView } from './finding-view';

/** A longer file is checked without being shown. */
const MOST_SHOWN_BYTES = 1024 ** 2;
/** Findings beyond these are counted, and not listed. */
const MOST_LISTED = 500;
/** Of own reference data. */
const FAULTS_SHOWN = 20;
const CHUNK_BYTES = 1024 ** 2;
/** The check begins after this pause of typing, so that a screen reader is not interrupted by each key. */
const TYPING_PAUSE_MS = 400;

const page = {
  events: byId('events', HTMLTextAreaElement),
  source: byId('source', HTMLElement),
  file: byId('file', HTMLInputElement),
  connection: byId('connection', HTMLSelectElement),
  referenceFile: byId('reference', HTMLInputElement),
  referenceNote: byId('reference-note', HTMLElement),
  summary: byId('summary', HTMLElement),
  notes: byId('notes', HTMLElement),
  filter: byId('filter', HTMLElement),
  problems: byId('problems', HTMLInputElement),
  findings: byId('findings', HTMLElement),
  json: byId('json', HTMLElement),
  lines: byId('lines', HTMLTextAreaElement),
};

/** Bytes that the text cannot hold exactly, or that are too many for it. Undefined: the text is checked. */
let bytes: Buffer | undefined;
let isTextShown = true;
let connections: ReadonlyMap<string, Connection> = new Map();
let listed: Finding[] = [];
/** A check that is no longer the latest ends early. */
let latest = 0;
let typing = 0;

// --- the check

async function* chunksOf(whole: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < whole.length; at += CHUNK_BYTES) {
    yield whole.subarray(at, at + CHUNK_BYTES);
    // The window stays usable during the check of a large file.
    if (at + CHUNK_BYTES < whole.length) await new Promise((resolve) => window.setTimeout(resolve));
  }
}

async function checkNow(): Promise<void> {
  window.clearTimeout(typing);
  const mine = ++latest;
  const connection = connections.get(page.connection.value);
  const sightings = new Map<string, Sighting>();
  const run = makeCheck(connection, {
    add(id, sighting) {
      const first = sightings.get(id);
      if (first === undefined) sightings.set(id, sighting);
      return first;
    },
  });
  const whole = bytes ?? Buffer.from(page.events.value);
  const notes: string[] = [];
  const found: Finding[] = [];
  let [events, problems] = [0, 0];
  for await (const findings of run.findings(chunksOf(whole), (text) => notes.push(`The text ${text}.`))) {
    if (mine !== latest) return;
    events += findings.length;
    for (const finding of findings) {
      const isProblem = finding.verdict !== 'accepted' || finding.warning !== undefined;
      if (isProblem) problems++;
      if (found.length < MOST_LISTED || (isProblem && problems <= MOST_LISTED)) found.push(finding);
    }
    if (events > found.length) page.summary.textContent = `Checking: ${run.summary()}`;
  }
  if (mine !== latest) return;
  const together = run.together();
  if (together !== undefined) notes.push(`Warning: ${together}.`);
  if (found.length < events)
    notes.push(
      `${found.length} events are listed: the first ones, and the first with a problem. promo-intake check prints all.`,
    );
  notes.push(
    `Not checked: ${connection === undefined ? 'brand and game rules, since none are chosen; ' : ''}stored state (event_ids that are decided already, and refunded rounds). ${UNSENT}`,
  );
  show(events === 0 ? undefined : run.summary(), notes, found);
}

function show(summary: string | undefined, notes: readonly string[], found: Finding[]): void {
  listed = found;
  page.summary.textContent = summary ?? 'No events yet.';
  page.notes.replaceChildren(...(summary === undefined ? [] : notes).map((note) => element('li', {}, note)));
  page.json.hidden = found.length === 0;
  page.lines.value = found.map((finding) => `${findingJson(finding)}\n`).join('');
  page.filter.hidden = !found.some(({ verdict }) => verdict === 'accepted') || found.length === 1;
  showList();
}

function showList(): void {
  const isHidden = (finding: Finding) =>
    page.problems.checked && !page.filter.hidden && finding.verdict === 'accepted';
  const showLine = isTextShown ? selectLine : undefined;
  page.findings.replaceChildren(
    ...listed.filter((finding) => !isHidden(finding)).map((finding) => findingView(finding, showLine)),
  );
}

function selectLine(line: number): void {
  const lines = page.events.value.split('\n');
  const start = lines.slice(0, line - 1).reduce((length, each) => length + each.length + 1, 0);
  page.events.focus();
  page.events.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
}

// --- the events

/** Shows bytes in the text. They are checked as they are until the text is edited. */
function load(loaded: Buffer, note: string): Promise<void> {
  isTextShown = loaded.length <= MOST_SHOWN_BYTES;
  const text = isTextShown ? loaded.toString('utf8') : '';
  page.events.value = text;
  const isExact = isTextShown && isUtf8(loaded) && page.events.value === text && !text.startsWith('\uFEFF');
  bytes = isExact ? undefined : loaded;
  const more = isTextShown
    ? 'The text cannot show its bytes exactly. The verdict is on the bytes, until you edit the text.'
    : 'It is too long to be shown, and is checked all the same.';
  page.source.textContent = isExact ? note : `${note} ${more}`;
  return checkNow();
}

function clear(): void {
  bytes = undefined;
  isTextShown = true;
  page.events.value = '';
  page.file.value = '';
  page.source.textContent = '';
  markExample(undefined);
  void checkNow();
}

page.events.addEventListener('input', () => {
  bytes = undefined;
  isTextShown = true;
  page.source.textContent = '';
  markExample(undefined);
  window.clearTimeout(typing);
  typing = window.setTimeout(() => void checkNow(), TYPING_PAUSE_MS);
});
page.file.addEventListener('change', async () => {
  const [file] = page.file.files ?? [];
  if (file === undefined) return;
  markExample(undefined);
  const content = Buffer.from(new Uint8Array(await file.arrayBuffer()));
  const foreign = foreignTextOf(content);
  if (foreign === undefined) return load(content, `The file ${file.name}.`);
  clear();
  page.source.textContent = `The file ${file.name} ${foreign.problem}. Convert it: ${foreign.convert}`;
});
byId('clear', HTMLButtonElement).addEventListener('click', () => {
  clear();
  page.events.focus();
});
page.problems.addEventListener('change', showList);

// --- the rules

function offerConnections(own: { name: string; ids: readonly string[] } | undefined): void {
  const options = (ids: Iterable<string>) => [...ids].map((id) => element('option', { value: id }, id));
  page.connection.replaceChildren(
    element('option', { value: '' }, 'none'),
    element('optgroup', { label: own?.name ?? 'The examples' }, ...options(own?.ids ?? connections.keys())),
  );
}

function useExampleRules(): void {
  connections = connectionsOf(reference);
  page.referenceFile.value = '';
  page.referenceNote.textContent = '';
  offerConnections(undefined);
}

page.connection.addEventListener('change', () => void checkNow());
page.referenceFile.addEventListener('change', async () => {
  const [file] = page.referenceFile.files ?? [];
  if (file === undefined) return;
  const content =
    file.size > MAX_REFERENCE_BYTES ? null : Buffer.from(new Uint8Array(await file.arrayBuffer()));
  const parsed = readReference(content, file.name);
  if ('faults' in parsed) {
    page.referenceNote.textContent = parsed.faults
      .slice(0, FAULTS_SHOWN)
      .map((fault) => describeFileFault(file.name, fault))
      .join('\n');
    return;
  }
  connections = connectionsOf(parsed.document);
  offerConnections({ name: file.name, ids: [...connections.keys()] });
  page.referenceNote.textContent = `${file.name}: choose one of its connections.`;
  void checkNow();
});

// --- the examples

async function choose(example: Example): Promise<void> {
  useExampleRules();
  page.connection.value = example.connection;
  page.file.value = '';
  markExample(example);
  history.replaceState(null, '', `#${example.file}`);
  await load(exampleBytes(example), `${example.file}: ${example.says}`);
  const last = listed.at(-1);
  if (last !== undefined && nameOf(last) !== nameOf(example))
    page.source.textContent += ` ${differenceOf(example)}`;
  const { top, bottom } = page.summary.getBoundingClientRect();
  if (top < 0 || bottom > window.innerHeight) page.summary.scrollIntoView();
}

/** Why the service answers otherwise than a check of a file. */
function differenceOf(example: Example): string {
  return example.reason === 'round_refunded'
    ? `The service remembers the refund, and answers ${nameOf(example)}.`
    : `As one Kafka record it is ${nameOf(example)}: a record holds one event, without a byte order mark.`;
}

const markExample = listExamples(byId('examples', HTMLElement), (example) => void choose(example));

byId('version', HTMLElement).textContent = version;
useExampleRules();
// On a narrow window the results follow below the examples.
byId('all-examples', HTMLDetailsElement).open = window.matchMedia('(min-width: 60rem)').matches;
const linked = examples.find(({ file }) => file === location.hash.slice(1));
if (linked === undefined) void checkNow();
else void choose(linked);
