/**
 * The twenty questions of docs/analysts/questions.md, as tests and the benchmark run them. The document is
 * the only place of the queries, of their sample results and of the story behind the samples.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './servers/download';

export const QUESTIONS = 'docs/analysts/questions.md';

export interface Question {
  readonly number: number;
  readonly title: string;
  readonly sql: string;
  /** Lines of SQL, without the comment. */
  readonly lines: number;
  readonly columns: readonly string[];
  readonly sample: readonly (readonly string[])[];
}

export interface Scene {
  /** The time of the decision, as `2026-11-02 09:00` in UTC. */
  readonly decided: string;
  /** The stated time of the event, where it is another one. */
  readonly stated: string;
  readonly event: string;
  /** The other cells, by the heads of their columns. */
  readonly fields: Readonly<Record<string, string>>;
}

/** Ids of a real store in place of those of the story. */
export type Ids = Readonly<Record<string, string>>;

export function readQuestions(root = projectRoot): Question[] {
  return readSections(root).flatMap((section) => {
    const [, number, title = ''] = /^### (\d+)\. (.+)$/m.exec(section) ?? [];
    return number === undefined ? [] : [questionOf(Number(number), title, section)];
  });
}

function questionOf(number: number, title: string, section: string): Question {
  const sql = /^```sql\n(.+?)^```/ms.exec(section)?.[1]?.trim().replace(/;$/, '');
  const [columns, ...sample] = tableOf(section);
  if (sql === undefined || columns === undefined)
    throw new Error(`${QUESTIONS}, question ${number}: no query or no sample`);
  const lines = sql.split('\n').filter((line) => !line.startsWith('--')).length;
  return { number, title, sql, lines, columns, sample };
}

export function readStory(root = projectRoot): Scene[] {
  const section = readSections(root).find((each) => each.startsWith('## The story of the samples')) ?? '';
  const [columns = [], ...rows] = tableOf(section);
  return rows.map((cells) => {
    const fields = Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? '']));
    const decided = fields.decided ?? '';
    const [event = '', stated = decided] = (fields.event ?? '').split(', of ');
    return { decided, stated, event, fields };
  });
}

function readSections(root: string): string[] {
  return readFileSync(join(root, QUESTIONS), 'utf8').split(/^(?=##+ )/m);
}

/** The cells of a section's table, without the line of dashes. */
function tableOf(section: string): string[][] {
  return section
    .split('\n')
    .filter((line) => line.startsWith('|') && !line.startsWith('| ---'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
}

/** The end of the week that the questions are about. */
const END_OF_STORY = '2026-11-09';
const DAY_MS = 86_400_000;

/** The query for a store whose events end today: its week ends at the last midnight in UTC. */
export function forNow(sql: string, ids: Ids, now = new Date()): string {
  const days = Math.floor((now.getTime() - Date.parse(END_OF_STORY)) / DAY_MS);
  return sql
    .replace(/\b2026-\d\d-\d\d\b/g, (date) =>
      new Date(Date.parse(date) + days * DAY_MS).toISOString().slice(0, 10),
    )
    .replace(/'([erx]-\d+|g\d)'/g, (quoted, id: string) => `'${ids[id] ?? quoted.slice(1, -1)}'`);
}

/** Ids of a filled store: a refunded round with its refund, another round, an event, a pseudonym, games. */
export const IDS_OF_STORE = `select v.event_id as "e-1", v.round_id as "r-2", v.player_id as "x-2", r.refunded_by as "e-5", r.round_id as "r-1", 'game-1' as "g1", 'game-2' as "g2"
from promo_reader.verdicts v, promo.rounds r
where v.verdict_id = (select max(verdict_id) - 70 from promo_store.history where kind = 1 and decided_at >= (select promo.newest_since(1000))) and r.refunded_at is not null and r.counted_bet > 0
order by r.refunded_at desc limit 1`;
