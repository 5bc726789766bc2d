/** The statements by which the fold of promotions reads definitions and the ledger, over the model. */
import { BATCH_NUMBERS } from '../../src/fold/statements';
import { toPromotionsJson } from '../../src/promotion-file/stored';
import { compareBytes } from '../../src/promotions/ranking';
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
  promotions_steps({ ledger }, [after, upTo, since, stepRows]) {
    const from = instantOf(since) ?? 0n;
    const rows = ledger.history.filter(
      ({ verdictId, decidedAt }) =>
        verdictId > Number(after) && verdictId <= Number(upTo) && decidedAt >= from,
    );
    const batches = Map.groupBy(rows, ({ verdictId }) => Math.floor(verdictId / BATCH_NUMBERS));
    const steps = new Map<number, [batch: number, rows: Verdict[]]>();
    let count = 0;
    for (const [batch, ofBatch] of [...batches].sort(([a], [b]) => a - b)) {
      count += ofBatch.length;
      const step = Math.floor((count - 1) / Number(stepRows));
      steps.set(step, [batch, [...(steps.get(step)?.[1] ?? []), ...ofBatch]]);
    }
    return [...steps.values()].map(([batch, ofStep]) => {
      const latest = timeText(maxOf(ofStep.map(({ decidedAt }) => decidedAt)));
      return [String(batch), String(ofStep.length), latest, latest];
    });
  },
  promotions_times({ seen }, [no]) {
    const row = seen.generations.get(Number(no));
    const closes = [...seen.boards.values()]
      .filter(({ generation }) => generation === Number(no))
      .flatMap(({ windowNo }) => seen.windows.get(windowNo)?.closesAt ?? []);
    return row === undefined ? [] : [[numberText(row.newestAt), numberText(maxOf(closes))]];
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
  promotions_read_refunds({ ledger }, [after, upTo, sinceText, operators]) {
    const since = instantOf(sinceText) ?? 0n;
    return verdictsOfSlice(ledger, [after, upTo, sinceText, operators]).flatMap(
      ({ kind, roundNo, eventId, verdictId }) => {
        const refund = kind === REFUND_KIND && roundNo !== null ? ledger.refunds.get(roundNo) : undefined;
        if (refund?.refundedBy !== eventId) return [];
        const { refundedAt, openedAt } = refund;
        return [[String(verdictId), String(refundedAt), String(roundNo), openedAt >= since ? 't' : 'f']];
      },
    );
  },
  promotions_read(session, values) {
    const rows = entriesOfSlice(session.ledger, values);
    rows.sort((a, b) => compareBytes(a.player, b.player) || a.verdictId - b.verdictId);
    return session.declare(rows.map((row) => [null, null, null, ...entryOf(row)]));
  },
  /** All entries are at their places. */
  promotions_read_recorded(session, [changes, times, rounds, no, after]) {
    const records = [...session.seen.records.values()].filter(
      ({ generation, isSummed, lastNo }) =>
        generation === Number(no) && (!isSummed || lastNo > Number(after)),
    );
    const isRecorded = ({ verdictId }: Verdict) =>
      records.some(({ verdictIds }) => verdictIds.includes(verdictId));
    return session.declare(reversals(session.ledger, [changes, times, rounds], isRecorded));
  },
  promotions_read_near(session, [changes, times, rounds, low, upTo, sinceText, kindList]) {
    const [kinds, since] = [numbersOf(kindList), instantOf(sinceText) ?? 0n];
    const isNear = ({ verdictId, decidedAt, kind }: Verdict) =>
      verdictId > Number(low) && verdictId <= Number(upTo) && decidedAt >= since && kinds.includes(kind);
    return session.declare(reversals(session.ledger, [changes, times, rounds], isNear));
  },
  promotions_read_far(session, [changes, times, rounds, kindList]) {
    const kinds = numbersOf(kindList);
    const isFar = ({ decidedAt, kind }: Verdict, { openedAt, refundedAt }: RefundedRound) =>
      decidedAt >= openedAt - DAY && decidedAt <= refundedAt + DAY && kinds.includes(kind);
    return session.declare(reversals(session.ledger, [changes, times, rounds], isFar));
  },
};

/** The verdicts of a slice. */
function verdictsOfSlice(
  { history }: LedgerTables,
  [after, upTo, sinceText, operators]: readonly unknown[],
): Verdict[] {
  const [since, operatorIds] = [instantOf(sinceText) ?? 0n, textsOf(operators)];
  return history.filter(
    ({ verdictId, decidedAt, operatorId }) =>
      verdictId > Number(after) &&
      verdictId <= Number(upTo) &&
      decidedAt >= since &&
      operatorIds.includes(operatorId),
  );
}

/** The entries of a slice that promotions may count. */
export function entriesOfSlice(ledger: LedgerTables, values: readonly unknown[]): Verdict[] {
  const kinds = numbersOf(values[4]);
  return verdictsOfSlice(ledger, values).filter(({ isCounted, kind }) => isCounted && kinds.includes(kind));
}

/** The entries of refunded rounds, each with verdict and time of its refund. */
function reversals(
  { history, refunds }: LedgerTables,
  [changes, times, rounds]: readonly unknown[],
  isRead: (row: Verdict, refund: RefundedRound) => boolean,
): Text[][] {
  const [changeNos, enteredAts] = [listOf(changes), listOf(times)];
  return numbersOf(rounds).flatMap((roundNo, place) => {
    const refund = refunds.get(roundNo);
    if (refund === undefined) return [];
    return history
      .filter((row) => row.roundNo === roundNo && row.isCounted && isRead(row, refund))
      .map((row): Text[] => [changeNos[place] ?? null, enteredAts[place] ?? null, null, ...entryOf(row)]);
  });
}
