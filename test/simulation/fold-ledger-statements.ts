/** The statements by which the fold of promotions reads definitions and the ledger, over the model. */
import { BATCH_NUMBERS } from '../../src/fold/fold';
import { toPromotionsJson } from '../../src/promotion-file/stored';
import type { FoldStatement } from './fold-statements';
import {
  instantOf,
  keyOfRow,
  listOf,
  numbersOf,
  numberText,
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
const entryOf = (row: Verdict): Text[] => [
  ...[String(row.verdictId), row.operatorId, row.operatorId, numberText(row.roundNo), row.brand, row.player],
  ...[String(row.kind), row.currency, String(row.amount), row.game],
  ...[String(row.occurredAt), String(row.decidedAt)],
];

export const LEDGER_STATEMENTS: Readonly<Record<string, FoldStatement>> = {
  promotions_measure({ ledger }, [after, upTo, since]) {
    const from = instantOf(since) ?? 0n;
    const rows = ledger.history.filter(
      ({ verdictId, decidedAt }) =>
        verdictId > Number(after) && verdictId <= Number(upTo) && decidedAt >= from,
    );
    const latest = timeText(maxOf(rows.map(({ decidedAt }) => decidedAt)));
    return [[String(rows.length), latest, latest]];
  },
  promotions_folded_to({ seen }, [generation]) {
    const row = seen.generations.get(Number(generation));
    return row === undefined ? [] : [[numberText(row.newestAt)]];
  },
  promotion_versions: ({ ledger }) =>
    ledger.versions.map(({ version, definition, since, until, removedAt, promotionNo }) => [
      ...[String(version), '1', JSON.stringify(toPromotionsJson({ promotions: [definition] }).promotions[0])],
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
  promotions_moved_rounds: () => [],
  promotions_loops: () => [],
  promotions_read({ ledger }, [afterText, upTo, nearText, sinceText, operators, kindList]) {
    const [after, near, since] = [Number(afterText), Number(nearText), instantOf(sinceText) ?? 0n];
    const [operatorIds, kinds] = [textsOf(operators), numbersOf(kindList)];
    const read = ledger.history.filter(
      ({ verdictId, decidedAt, operatorId, isCounted, kind }) =>
        verdictId > Math.min(after, near) &&
        verdictId <= Number(upTo) &&
        decidedAt >= since &&
        operatorIds.includes(operatorId) &&
        ((isCounted && kinds.includes(kind)) || kind === REFUND_KIND),
    );
    const refunds = read.flatMap(({ verdictId, kind, roundNo, eventId }) => {
      const refund =
        kind === REFUND_KIND && verdictId > after ? ledger.refunds.get(roundNo ?? -1) : undefined;
      if (refund?.refundedBy !== eventId) return [];
      const opened = Math.floor(refund.roundNo / BATCH_NUMBERS) * BATCH_NUMBERS;
      return [{ ...refund, changeNo: verdictId, isNear: opened > near && refund.openedAt >= since }];
    });
    const entries = read
      .filter(({ isCounted, verdictId }) => isCounted && verdictId > after)
      .map((row) => [String(row.verdictId), String(row.decidedAt), 'f', ...entryOf(row)]);
    const reversals = refunds
      .filter(({ isNear }) => isNear)
      .flatMap(({ roundNo, changeNo, refundedAt }) =>
        read
          .filter((row) => row.isCounted && row.roundNo === roundNo)
          .map((row) => [String(changeNo), String(refundedAt), 't', ...entryOf(row)]),
      );
    const far = refunds
      .filter(({ isNear }) => !isNear)
      .map(({ changeNo, refundedAt, roundNo }): Text[] => [
        ...[String(changeNo), String(refundedAt), null, String(roundNo)],
        ...Array.from({ length: 11 }, () => null),
      ]);
    return [...entries, ...reversals, ...far];
  },
  promotions_read_far({ ledger }, [changes, times, rounds, kindList]) {
    const kinds = numbersOf(kindList);
    const [changeNos, enteredAts] = [listOf(changes), listOf(times)];
    return numbersOf(rounds).flatMap((roundNo, place) => {
      const refund = ledger.refunds.get(roundNo);
      if (refund === undefined) return [];
      return ledger.history
        .filter(
          (row) =>
            row.roundNo === roundNo &&
            row.isCounted &&
            kinds.includes(row.kind) &&
            row.decidedAt >= refund.openedAt - DAY &&
            row.decidedAt <= refund.refundedAt + DAY,
        )
        .map((row): Text[] => [changeNos[place] ?? null, enteredAts[place] ?? null, 't', ...entryOf(row)]);
    });
  },
};
