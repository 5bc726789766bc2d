/** The statements by which the fold of promotions reads definitions and the ledger, over the model. */
import { BATCH_NUMBERS } from '../../src/fold/statements';
import { toPromotionsJson } from '../../src/promotion-file/stored';
import { compareBytes } from '../../src/promotions/ranking';
import type { FoldSession, FoldStatement } from './fold-statements';
import {
  everDecided,
  type FoldTables,
  flag,
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
        generation,
        removedAt: instantOf(times[place] ?? null),
      });
    return [];
  },
  promotions_has_attributions: ({ ledger }) => [[flag(ledger.credits.length > 0)]],
  promotions_credits({ ledger, seen }, [rounds, upTo]) {
    const rows = numbersOf(rounds).flatMap((roundNo) =>
      ledger.credits
        .filter(({ round, changeNo }) => round === roundOf(ledger, roundNo) && changeNo <= Number(upTo))
        .map((credit): [number, number, Text[]] => {
          const erased = seen.erasedCredits.get(keyOfRow(credit.round, credit.changeNo));
          const of = [erased?.player ?? null, numberText(erased?.erasedNo ?? null)];
          const row = [String(credit.at), credit.brand, credit.player, ...of];
          return [roundNo, credit.changeNo, [...row, timeText(erased?.erasedAt ?? null)]];
        }),
    );
    rows.sort(([round, no], [otherRound, otherNo]) => round - otherRound || no - otherNo);
    return rows.map(([round, no, row]) => [String(round), String(no), ...row]);
  },
  promotions_moved_rounds({ ledger, seen }, [after, upTo]) {
    const isOfSlice = (no: number) => no > Number(after) && no <= Number(upTo);
    // An erased attribution has a number that moves nothing by itself: the last one of its round.
    const changes = ledger.credits.filter(({ changeNo, erases }) => erases !== true && isOfSlice(changeNo));
    const erased = [...seen.erasedCredits.values()].filter(({ erasedNo }) => isOfSlice(erasedNo));
    const moved = [...changes, ...erased].flatMap(
      ({ round }) => everDecided(ledger).find((row) => row.round === round)?.roundNo ?? [],
    );
    return [...new Set(moved)].map((roundNo) => [String(roundNo)]);
  },
  promotions_refunds_of_rounds: ({ ledger }, [rounds]) =>
    numbersOf(rounds).flatMap((roundNo) => {
      const refund = ledger.refunds.get(roundNo);
      return ledger.history
        .filter(({ kind, eventId }) => kind === REFUND_KIND && eventId === refund?.refundedBy)
        .map(({ verdictId }) => [String(roundNo), String(verdictId), numberText(refund?.refundedAt ?? null)]);
    }),
  promotions_read_rounds({ ledger }, [rounds, kindList, upTo]) {
    const [numbers, kinds] = [numbersOf(rounds), numbersOf(kindList)];
    return ledger.history
      .filter(({ roundNo, isCounted }) => roundNo !== null && numbers.includes(roundNo) && isCounted)
      .filter(({ kind, verdictId }) => kinds.includes(kind) && verdictId <= Number(upTo))
      .map((row) => [null, null, null, ...entryOf(row)]);
  },
  promotions_loops: () => [],
  promotions_set_plans: (_, [mode]) => [[String(mode)]],
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
  ...scans('promotions_read', (ledger, values, creditedTo) => {
    const rows = entriesOfSlice(ledger, values).map((row) => ({
      row,
      credited: creditedTo(row, row.verdictId),
    }));
    const playerOf = ({ row, credited }: (typeof rows)[number]) => credited ?? row.player;
    rows.sort((a, b) => compareBytes(playerOf(a), playerOf(b)) || a.row.verdictId - b.row.verdictId);
    return rows.map(({ row, credited }) => [null, null, credited, ...entryOf(row)]);
  }),
  /** All entries are at their places. */
  ...scans('promotions_read_recorded', (ledger, [changes, times, rounds, no, after], creditedTo, seen) => {
    const records = [...seen.records.values()].filter(
      ({ generation, isSummed, lastNo }) =>
        generation === Number(no) && (!isSummed || lastNo > Number(after)),
    );
    const isRecorded = ({ verdictId }: Verdict) =>
      records.some(({ verdictIds }) => verdictIds.includes(verdictId));
    return reversals(ledger, [changes, times, rounds], creditedTo, isRecorded);
  }),
  ...scans('promotions_read_near', (ledger, [changes, times, rounds, ...values], creditedTo) => {
    const [low, upTo, sinceText, kindList] = values;
    const [kinds, since] = [numbersOf(kindList), instantOf(sinceText) ?? 0n];
    const isNear = ({ verdictId, decidedAt, kind }: Verdict) =>
      verdictId > Number(low) && verdictId <= Number(upTo) && decidedAt >= since && kinds.includes(kind);
    return reversals(ledger, [changes, times, rounds], creditedTo, isNear);
  }),
  ...scans('promotions_read_far', (ledger, [changes, times, rounds, kindList], creditedTo) => {
    const kinds = numbersOf(kindList);
    const isFar = ({ decidedAt, kind }: Verdict, { openedAt, refundedAt }: RefundedRound) =>
      decidedAt >= openedAt - DAY && decidedAt <= refundedAt + DAY && kinds.includes(kind);
    return reversals(ledger, [changes, times, rounds], creditedTo, isFar);
  }),
};

/** The player to whom an entry is credited as of a number; null: its own player. */
type CreditedTo = (row: Verdict, changeNo: number) => string | null;

/** A scan that asks for no credits, and the same with credits. */
function scans(
  name: string,
  read: (
    ledger: LedgerTables,
    values: readonly unknown[],
    creditedTo: CreditedTo,
    seen: FoldTables,
  ) => Text[][],
): Record<string, FoldStatement> {
  return {
    [name]: ({ ledger, seen, declare }, values) => declare(read(ledger, values, () => null, seen)),
    [`${name}_credited`]: (session, values) =>
      session.declare(
        read(
          session.ledger,
          values,
          ({ round, brand }, changeNo) => creditedOf(session, round, brand, changeNo),
          session.seen,
        ),
      ),
  };
}

/**
 * The player to whom entries of a round and brand are credited as of a number; null: their own player. Of an
 * erased attribution, it is the player whom promotions have credited.
 */
export function creditedOf(
  { ledger, seen }: Pick<FoldSession, 'ledger' | 'seen'>,
  round: string | null,
  brand: string,
  asOf: number,
): string | null {
  const [credit] = ledger.credits
    .filter((each) => each.round === round && each.changeNo <= asOf)
    .sort((a, b) => b.changeNo - a.changeNo);
  if (credit === undefined || (credit.brand !== null && credit.brand !== brand)) return null;
  return seen.erasedCredits.get(keyOfRow(credit.round, credit.changeNo))?.player ?? credit.player;
}

export const roundOf = (ledger: LedgerTables, roundNo: number): string | null =>
  everDecided(ledger).find((row) => row.roundNo === roundNo)?.round ?? null;

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
  creditedTo: CreditedTo,
  isRead: (row: Verdict, refund: RefundedRound) => boolean,
): Text[][] {
  const [changeNos, enteredAts] = [listOf(changes), listOf(times)];
  return numbersOf(rounds).flatMap((roundNo, place) => {
    const refund = refunds.get(roundNo);
    if (refund === undefined) return [];
    return history
      .filter((row) => row.roundNo === roundNo && row.isCounted && isRead(row, refund))
      .map((row): Text[] => [
        ...[changeNos[place] ?? null, enteredAts[place] ?? null],
        ...[creditedTo(row, Number(changeNos[place])), ...entryOf(row)],
      ]);
  });
}
