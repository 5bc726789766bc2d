/** The output of `promotions preview`: text for people, or objects for programs. */
import { currencyOf, toMajor } from '../../domain/event/money';
import { counted, plain } from '../../lib/printable';
import { runsOf, unitsIn } from '../../promotions/attainment';
import type { PromotionWindow } from '../../promotions/calendar';
import { instantText } from '../../promotions/local-time';
import type { PlayerProgress } from '../../promotions/player-progress';
import { type Misses, PREVIEW_REASONS, type Preview } from '../../promotions/preview';
import { compareBytes, ranking } from '../../promotions/ranking';
import type { CompiledPromotion } from '../../promotions/terms';

export interface PreviewReport {
  readonly preview: Preview;
  /** Microseconds since 1970; null: no event and no option says it. */
  readonly asOf: bigint | null;
  readonly file: string;
  readonly eventFile: string;
  readonly summary: string;
}

const PLAYERS_SHOWN = 20;

// --- for people

export function* previewText({ preview, asOf, file, eventFile, summary }: PreviewReport): Generator<string> {
  yield `${eventFile}: ${summary}`;
  const time = asOf === null ? '' : `, as of ${instantText(asOf)}`;
  yield `${file}: ${counted(preview.promotions.length, 'promotion')}${time}`;
  for (const promotion of preview.promotions) {
    const { id, type } = promotion.definition;
    yield '';
    yield `${id} (${type})`;
    const windows = byWindow(preview, promotion);
    if (windows.length === 0) yield '  no event counts';
    for (const [window, players] of windows) {
      yield `  ${windowText(window)}: ${counted(players.length, 'player')}`;
      for (const line of playersText(preview, promotion, players)) yield `    ${line}`;
    }
    for (const [reason, misses] of preview.misses.get(promotion) ?? [])
      yield `  not counted: ${counted(misses.count, 'event')}, ${reason}: ${PREVIEW_REASONS[reason]} (${linesText(misses)})`;
  }
  if (preview.uncounted.size > 0) yield '';
  for (const [cause, misses] of preview.uncounted)
    yield `counts in no promotion: ${counted(misses.count, 'event')}, ${cause} (${linesText(misses)})`;
}

function* playersText(
  preview: Preview,
  promotion: CompiledPromotion,
  players: readonly PlayerProgress[],
): Generator<string> {
  if (promotion.goal.rule === 'rank') {
    const ranked = ranking(promotion, players);
    for (const [index, progress] of ranked.slice(0, PLAYERS_SHOWN).entries())
      yield `${index + 1}. ${plain(progress.playerRef)}: ${counted(Number(progress.score), 'point')}${completionsText(preview, progress)}`;
    if (ranked.length > PLAYERS_SHOWN)
      yield `and ${ranked.length - PLAYERS_SHOWN} more ranks (--json has all)`;
    return;
  }
  const sorted = [...players].sort(
    (a, b) => b.attained - a.attained || compareBytes(a.playerRef, b.playerRef),
  );
  for (const progress of sorted.slice(0, PLAYERS_SHOWN))
    yield `${plain(progress.playerRef)}: ${valuesText(progress)}${completionsText(preview, progress)}`;
  if (sorted.length > PLAYERS_SHOWN)
    yield `and ${sorted.length - PLAYERS_SHOWN} more players (--json has all)`;
}

/** "EUR 320.00 of 500.00" */
function valuesText(progress: PlayerProgress): string {
  const { promotion } = progress;
  const { goal, terms } = promotion;
  const rows = progress.rows();
  switch (goal.rule) {
    case 'days_in_a_row': {
      const [longest] = runsOf(rows).sort((a, b) => b.length - a.length);
      if (longest === undefined) return 'no day';
      return `${longest.length} of ${goal.days} days in a row, from ${longest.first}`;
    }
    case 'every_item':
      return [...goal.need]
        .map(([item, need]) => `${plain(item)} ${unitsIn(promotion, rows, item)} of ${need}`)
        .join(', ');
    default:
      return rows
        .map(({ currency, value }) => {
          const unit = terms[0]?.unit.get(currency) ?? 0n;
          return currency === ''
            ? `${value} of ${unit}`
            : `${currency} ${majorText(value, currency)} of ${majorText(unit, currency)}`;
        })
        .join(', ');
  }
}

function completionsText(preview: Preview, progress: PlayerProgress): string {
  const held = [...preview.fold.completionsOf(progress).values()];
  if (held.length === 0) return '';
  const confirmed = held.filter(({ isConfirmed }) => isConfirmed).length;
  const waiting = progress.promotion.confirmAfter === null ? '' : `, ${confirmed} confirmed`;
  if (progress.promotion.goal.rule === 'rank') return `, final${waiting}`;
  return `, completed${held.length > 1 ? ` ${held.length} times` : ''}${waiting}`;
}

function linesText({ count, lines }: Misses): string {
  const word = lines.length > 1 ? 'lines' : 'line';
  return `${word} ${lines.join(', ')}${count > lines.length ? ' and more' : ''}`;
}

function windowText({ startsAt, endsAt }: PromotionWindow): string {
  if (startsAt === null && endsAt === null) return 'all time';
  if (startsAt === null) return `before ${instantText(endsAt ?? 0n)}`;
  return endsAt === null
    ? `from ${instantText(startsAt)}`
    : `from ${instantText(startsAt)} to ${instantText(endsAt)}`;
}

// --- for programs

export function* previewObjects({
  preview,
  asOf,
  file,
  eventFile,
  summary,
}: PreviewReport): Generator<string> {
  for (const promotion of preview.promotions) {
    const { id, type } = promotion.definition;
    for (const [window, players] of byWindow(preview, promotion)) {
      const place = { promotion: id, type, window: windowObject(window) };
      const ranks = new Map(ranking(promotion, players).map((progress, index) => [progress, index + 1]));
      for (const progress of players) {
        const { playerRef } = progress;
        const own = { ...place, player_ref: playerRef };
        yield JSON.stringify({ row: 'progress', ...own, ...progressObject(progress) });
        const rank = ranks.get(progress);
        if (rank !== undefined)
          yield JSON.stringify({ row: 'rank', ...own, rank, points: String(progress.score) });
        for (const { key, completionId, at, isConfirmed } of preview.fold.completionsOf(progress).values()) {
          const { ordinal, attempt } = key;
          const completed = { completion_id: completionId, ordinal, attempt, completed_at: instantText(at) };
          yield JSON.stringify({ row: 'completion', ...own, ...completed, confirmed: isConfirmed });
        }
      }
    }
    for (const [reason, { count, lines }] of preview.misses.get(promotion) ?? [])
      yield JSON.stringify({ row: 'miss', promotion: id, reason, events: count, first_lines: lines });
  }
  for (const [cause, { count, lines }] of preview.uncounted)
    yield JSON.stringify({ row: 'miss', promotion: null, reason: cause, events: count, first_lines: lines });
  yield JSON.stringify({
    row: 'summary',
    file,
    events: eventFile,
    as_of: asOf === null ? null : instantText(asOf),
    verdicts: summary,
  });
}

function progressObject(progress: PlayerProgress) {
  const rows = [...progress.rows()].sort(
    (a, b) => compareBytes(a.item, b.item) || compareBytes(a.currency, b.currency),
  );
  const values = rows.map(({ item, currency, value }) => ({
    ...(item !== '' && { item }),
    ...(currency !== '' && { currency }),
    value: currency === '' ? String(value) : majorText(value, currency),
  }));
  return progress.promotion.goal.rule === 'rank'
    ? { values, points: String(progress.score) }
    : { values, completions: progress.attained };
}

function windowObject({ key, startsAt, endsAt }: PromotionWindow) {
  return {
    key,
    starts_at: startsAt === null ? null : instantText(startsAt),
    ends_at: endsAt === null ? null : instantText(endsAt),
  };
}

// --- both

/** The windows of a promotion with their players, the earliest window first. */
function byWindow(preview: Preview, promotion: CompiledPromotion): [PromotionWindow, PlayerProgress[]][] {
  const windows = new Map<string, [PromotionWindow, PlayerProgress[]]>();
  for (const progress of preview.fold.progress()) {
    if (progress.promotion !== promotion || isEmpty(progress)) continue;
    const { window } = progress;
    const found = windows.get(window.key);
    if (found === undefined) windows.set(window.key, [window, [progress]]);
    else found[1].push(progress);
  }
  const sorted = [...windows.values()].sort(([a], [b]) => compareBytes(a.key, b.key));
  for (const [, players] of sorted) players.sort((a, b) => compareBytes(a.playerRef, b.playerRef));
  return sorted;
}

/** Whether refunds took back everything that counted. */
function isEmpty(progress: PlayerProgress): boolean {
  return progress.rows().every(({ value }) => value === 0n);
}

function majorText(minor: bigint, code: string): string {
  return toMajor(minor, currencyOf(code)?.scale ?? 0);
}
