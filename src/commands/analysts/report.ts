/** `promo-intake report`: a report with charts of the stored verdicts, as one HTML file or as JSON. */
import { DONE, FAILED } from '../../cli/exit-codes';
import { Unable } from '../../cli/explain-error';
import { integerOf, type Options, readBoth, readTime, wrongOption } from '../../cli/option-values';
import { printText } from '../../cli/output';
import { packageVersion } from '../../cli/package-version';
import { nameInstead } from '../../cli/unknown-name';
import { openWholeFile } from '../../cli/whole-file';
import { readConfig } from '../../config/config';
import { nearest } from '../../lib/did-you-mean';
import { DAY_MS, isTimeZone, TimeZone, timeZoneNames } from '../../lib/time-zone';
import type { VerdictReport } from '../../report/data';
import { reportPage } from '../../report/page';
import { readReport, UnknownOperator } from '../../report/report';
import { type ReportSpan, UnusableRange } from '../../report/window';

/** The deadline of each query, where --within names none. */
const QUERY_WITHIN_SECONDS = 60;

/** @returns the exit code */
export async function report(options: Options): Promise<number> {
  const [timeZone, within] = readBoth(
    () => timeZoneOf(options),
    () => integerOf(options, 'within', 1),
  );
  const span = spanOfOptions(options, new TimeZone(timeZone));
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const out = options.get('out');
  const file = out === undefined ? undefined : await openWholeFile('out', out);
  try {
    const made = await readReport(DATABASE, {
      operator: options.get('operator') ?? null,
      span,
      timeZone,
      withinMs: (within ?? QUERY_WITHIN_SECONDS) * 1_000,
      madeBy: await packageVersion(),
    }).catch(explained);
    const text = options.has('json') ? `${JSON.stringify(made, null, 2)}\n` : reportPage(made);
    if (file === undefined) await printText(text);
    await file?.write(text);
    await file?.finish();
    if (out !== undefined) console.error(`report written to ${out}`);
    return codeOf(made);
  } finally {
    await file?.discard();
  }
}

function codeOf({ coverage: { too_slow, query_seconds } }: VerdictReport): number {
  if (too_slow.length === 0) return DONE;
  console.error(
    `The report has no ${too_slow.join(', ')}: the query was ended after ${query_seconds} s. Choose a shorter range, allow more time by --within, or keep rollups.`,
  );
  return FAILED;
}

function timeZoneOf(options: Options): string {
  const name = options.get('time-zone') ?? 'UTC';
  if (isTimeZone(name)) return name;
  const near = nearest(name, timeZoneNames(), () => 3);
  throw wrongOption(
    'time-zone',
    `"${name}" is no time zone`,
    near === undefined ? 'Write an IANA name such as Europe/Warsaw, or UTC' : `Did you mean ${near}?`,
  );
}

function spanOfOptions(options: Options, zone: TimeZone): Partial<ReportSpan> {
  const [from, to] = readBoth(
    () => momentOf(options, 'from', zone),
    () => momentOf(options, 'to', zone),
  );
  return { ...(from !== undefined && { from }), ...(to !== undefined && { to }) };
}

/** A date is the begin of the day in the time zone. */
function momentOf(options: Options, name: 'from' | 'to', zone: TimeZone): number | undefined {
  const text = options.get(name) ?? '';
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return readTime(options, name);
  const day = Date.parse(`${text}T00:00:00Z`);
  if (Number.isNaN(day) || new Date(day).toISOString().slice(0, 10) !== text)
    throw wrongOption(name, `"${text}" is no date`, 'Write it like 2026-11-01');
  return zone.firstInstantOf(Math.floor(day / DAY_MS) * DAY_MS);
}

function explained(error: unknown): never {
  if (error instanceof UnusableRange) throw new Unable(error.message, { cause: error });
  if (!(error instanceof UnknownOperator)) throw error;
  const { operator, known } = error;
  const remedy =
    known.length === 0
      ? 'The reference data names none: run promo-intake reference apply.'
      : nameInstead(operator, known);
  throw new Unable(`There is no operator ${operator}. ${remedy}`, { cause: error });
}
