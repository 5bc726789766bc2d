/** `promo-intake promotions list`, `history` and `export`: show the promotions that are stored. */
import { DONE } from '../../cli/exit-codes';
import { integerOf, type Options } from '../../cli/option-values';
import { printLines, printText } from '../../cli/output';
import { counted, inOneLine, plain } from '../../lib/printable';
import {
  readPromotionDocument,
  readPromotionHistory,
  readStoredPromotions,
  type StoredPromotions,
} from '../../promotion-store/documents';
import { timelinesOf } from '../../promotion-store/versions';
import { BEFORE_ALL, type PromotionWindow } from '../../promotions/calendar';
import { instantText } from '../../promotions/local-time';
import { compareBytes } from '../../promotions/ranking';
import { type PromotionState, promotionStateOf } from '../../promotions/state';
import { missingDocument, withPromotions } from './apply';

/** @returns the exit code */
export async function listPromotions(options: Options): Promise<number> {
  return withPromotions(async (pool) => {
    const stored = await readStoredPromotions(pool);
    if (options.has('json')) await printText(`${JSON.stringify(listJson(stored), null, 2)}\n`);
    else await printLines(listText(stored));
    return DONE;
  });
}

/** @returns the exit code */
export async function promotionsHistory(): Promise<number> {
  return withPromotions(async (pool) => {
    const documents = await readPromotionHistory(pool);
    await printLines(
      documents.map(({ version, appliedAt, promotions, by, reason }, index) =>
        [
          `${version} ${appliedAt} ${counted(promotions, 'promotion')}${index === 0 ? ', in force' : ''}`,
          `, by ${inOneLine(by)}${reason === null ? '' : `: ${inOneLine(reason)}`}`,
        ].join(''),
      ),
    );
    if (documents.length === 0) console.log('no document was ever applied');
    return DONE;
  });
}

/** Prints a document as a file for `promotions apply`. @returns the exit code */
export async function exportPromotions(options: Options): Promise<number> {
  const wanted = integerOf(options, 'version', 1);
  return withPromotions(async (pool) => {
    const found = await readPromotionDocument(pool, wanted);
    if (found === undefined) return missingDocument(wanted);
    await printText(`${found.text}\n`);
    return DONE;
  });
}

function inOrder({ versions }: StoredPromotions) {
  return [...timelinesOf(versions)].sort(([a], [b]) => compareBytes(a, b)).map(([, timeline]) => timeline);
}

function* listText(stored: StoredPromotions): Generator<string> {
  const timelines = inOrder(stored);
  if (timelines.length === 0) yield 'there are no promotions';
  for (const timeline of timelines) {
    const found = promotionStateOf(timeline, stored.at);
    const { operator, id, type } = found.version.definition;
    yield `${plain(operator)}/${plain(id)} (${type}): ${stateText(found)}`;
  }
}

function stateText({ state, version, window, next }: PromotionState): string {
  const now = `version ${version.version} ${state}${window === undefined ? '' : windowText(window)}`;
  if (next === undefined) return now;
  const since = next.since === null ? '' : `, for windows that begin at ${instantText(next.since)} or later`;
  return `${now}; version ${next.version} follows${since}`;
}

function windowText({ startsAt, endsAt }: PromotionWindow): string {
  const from = startsAt === null ? '' : ` from ${instantText(startsAt)}`;
  return `${from}${endsAt === null ? '' : ` to ${instantText(endsAt)}`}`;
}

function listJson(stored: StoredPromotions): object {
  const promotions = inOrder(stored).map((timeline) => {
    const { state, version, window } = promotionStateOf(timeline, stored.at);
    const { operator, id, type } = version.definition;
    return {
      operator,
      promotion: id,
      type,
      state,
      version: version.version,
      window: window && {
        key: window.key,
        starts_at: timeJson(window.startsAt),
        ends_at: timeJson(window.endsAt),
      },
      versions: timeline.map((each) => ({
        version: each.version,
        document_version: each.documentVersion,
        counts_none: each.until === BEFORE_ALL,
        since: timeJson(each.since),
        until: timeJson(each.until),
        removed_at: timeJson(each.removedAt),
      })),
    };
  });
  return { document_version: stored.version, promotions };
}

function timeJson(micros: bigint | null): string | null {
  return micros === null || micros === BEFORE_ALL ? null : instantText(micros);
}
