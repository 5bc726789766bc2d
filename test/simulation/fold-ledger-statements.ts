/** The statements by which the fold of promotions reads definitions and the ledger, over the model. */
import { BATCH_NUMBERS } from '../../src/fold/statements';
import { toPromotionsJson } from '../../src/promotion-file/stored';
import type { FoldStatement } from './fold-statements';
import {
  instantOf,
  keyOfRow,
  type LedgerTables,
  listOf,
  numbersOf,
  numberText,
  type RefundedRound,
  sentText,
  textsOf,
  timeText,
  type Verdict,
} from './fold-tables';
import type { Text } from './wire';

export const REFUND_KIND = 4;
const DAY = 86_400_000_000n;

const maxOf = (times: readonly bigint[]): bigint | null =>
  times.reduce<bigint | null>((most, time) => (most === null || time > most ? time : most), null);

/** The columns of an entry, behind those of the verdict that made the row. */
export const entryOf = (row: Verdict): Text[] => [
  ...[String(row.verdictId), row.operatorId, numberText(row.roundNo), row.brand, row.player],
  ...[String(row.kind), row.currency, String(row.amount), row.game],
  ...[sentText(row.occurredAt), sentText(row.decidedAt)],
];

export const LEDGER_STATEMENTS: Readonly<Record<string, FoldStatement>> = {
  promotions_parts({ ledger }, [after, upTo, since, partRows]) {
    const from = instantOf(since) ?? 0n;
    const rows = ledger.history.filter(
      ({ verdictId, decidedAt }) =>
        verdictId > Number(after) && verdictId <= Number(upTo) && decidedAt >= from,
    );
    const batches = Map.groupBy(rows, ({ verdictId }) => Math.floor(verdictId / BATCH_NUMBERS));
    const parts = new Map<number, [batch: number, rows: Verdict[]]>();
    let count = 0;
    for (const [batch, ofBatch] of [...batches].sort(([a], [b]) => a - b)) {
      count += ofBatch.length;
      const part = Math.floor((count - 1) / Number(partRows));
      parts.set(part, [batch, [...(parts.get(part)?.[1] ?? []), ...ofBatch]]);
    }
    return [...parts.values()].map(([batch, ofPart]) => {
      const latest = timeText(maxOf(ofPart.map(({ decidedAt }) => decidedAt)));
      return [String(batch), String(ofPart.length), latest, latest];
    });
  },
  promotions_folded_to({ seen }, [generation]) {
    const row = seen.generations.get(Number(generation));
    return row === undefined ? [] : [[numberText(row.newestAt)]];
  },
  promotion_versions: ({ ledger }) =>
    ledger.versions.map(({ version, documentVersion, definition, since, until, removedAt, promotionNo }) => [
      ...[
        String(version),
        String(documentVersion),
        JSON.stringify(toPromotionsJson({ promotions: [definition] }).promotions[0]),
      ],
      ...[timeText(since), timeText(until), timeText(removedAt), String(promotionNo)],
    ]),
  promotions_counted: ({ seen }, [generation]) =>
    [...seen.counted].flatMap(([key, row]) => {
      const [, promotionNo = '', version = ''] = key.split('\0');
      return row.generation === Number(generation) ? [[promotionNo, version, timeText(row.removedAt)]] : [];
    }),
  promotions_count(session, [no, promotions, versions, removed]) {
    const generation = Number(no);
    const [ofVersions, times] = [listOf(versions), listOf(removed)];
    const { counted } = session.changed();
    for (const [place, promotionNo] of listOf(promotions).entries())
      counted.set(keyOfRow(generation, promotionNo ?? '', ofVersions[place] ?? ''), {
        ...{ generation, removedAt: instantOf(times[place] ?? null) },
      });
    return [];
  },
  // Attributions are not in the simulator: test/ledger/promotion-fold.test.ts has them.
  promotions_has_attributions: () => [['f']],
  promotions_loops: () => [],
  promotions_read_refunds({ ledger }, [changes, rounds, events, sinceText]) {
    const [changeNos, eventIds, since] = [listOf(changes), listOf(events), instantOf(sinceText) ?? 0n];
    return numbersOf(rounds).flatMap((roundNo, place) => {
      const refund = ledger.refunds.get(roundNo);
      if (refund === undefined || refund.refundedBy !== eventIds[place]) return [];
      const { refundedAt, openedAt } = refund;
      return [[changeNos[place] ?? null, String(refundedAt), String(roundNo), openedAt >= since ? 't' : 'f']];
    });
  },
  promotions_read_near(session, [changes, times, rounds, low, after, sinceText, kindList]) {
    const [kinds, since] = [numbersOf(kindList), instantOf(sinceText) ?? 0n];
    const isNear = ({ verdictId, decidedAt }: Verdict) =>
      verdictId > Number(low) && verdictId <= Number(after) && decidedAt >= since;
    return session.declare(reversals(session.ledger, [changes, times, rounds], kinds, isNear));
  },
  promotions_read_far(session, [changes, times, rounds, kindList]) {
    const isFar = ({ decidedAt }: Verdict, { openedAt, refundedAt }: RefundedRound) =>
      decidedAt >= openedAt - DAY && decidedAt <= refundedAt + DAY;
    return session.declare(reversals(session.ledger, [changes, times, rounds], numbersOf(kindList), isFar));
  },
};

/** The verdicts that a slice reads: entries and refunds. */
export function rowsOfSlice(
  { history }: LedgerTables,
  [afterText, upTo, sinceText, operators, kindList]: readonly unknown[],
): Verdict[] {
  const [after, since] = [Number(afterText), instantOf(sinceText) ?? 0n];
  const [operatorIds, kinds] = [textsOf(operators), numbersOf(kindList)];
  return history.filter(
    ({ verdictId, decidedAt, operatorId, isCounted, kind }) =>
      verdictId > after &&
      verdictId <= Number(upTo) &&
      decidedAt >= since &&
      operatorIds.includes(operatorId) &&
      ((isCounted && kinds.includes(kind)) || kind === REFUND_KIND),
  );
}

/** The entries of refunded rounds, each with verdict and time of its refund. */
function reversals(
  { history, refunds }: LedgerTables,
  [changes, times, rounds]: readonly unknown[],
  kinds: readonly number[],
  isRead: (row: Verdict, refund: RefundedRound) => boolean,
): Text[][] {
  const [changeNos, enteredAts] = [listOf(changes), listOf(times)];
  return numbersOf(rounds).flatMap((roundNo, place) => {
    const refund = refunds.get(roundNo);
    if (refund === undefined) return [];
    return history
      .filter(
        (row) => row.roundNo === roundNo && row.isCounted && kinds.includes(row.kind) && isRead(row, refund),
      )
      .map((row): Text[] => [changeNos[place] ?? null, enteredAts[place] ?? null, null, ...entryOf(row)]);
  });
}
