/**
 * `promo-intake attribute round` and `attribute file`: set the players to whom promotions credit rounds. No
 * output names a player.
 */
import { readLines } from '../../check/lines';
import { DONE, FAILED } from '../../cli/exit-codes';
import { openInput } from '../../cli/open-input';
import { type Options, requestedBy } from '../../cli/option-values';
import { playerOf, replacedPlayerOf } from '../../cli/player-input';
import { readConfig } from '../../config/config';
import { type Attribution, readAttribution } from '../../domain/attribution';
import {
  ATTRIBUTIONS_AT_ONCE,
  type AttributionOutcome,
  type AttributionResult,
  attributeRounds,
  type CorrectionOutcome,
  correctAttribution,
} from '../../ledger/attributions';
import { counted, inOneLine } from '../../lib/printable';
import { describeAttributionFault, readAttributionLine } from './attribution-lines';

/** Sets the player of one round. @returns the exit code */
export async function attributeRound(options: Options): Promise<number> {
  const operator = options.get('operator') ?? '';
  const json = {
    round_id: options.get('round'),
    promo_player_ref: await playerOf(options),
    ...(options.has('feed') && { feed_id: options.get('feed') }),
    ...(options.has('brand') && { brand: options.get('brand') }),
  };
  const read = readAttribution(json, operator);
  if ('faults' in read) {
    for (const fault of read.faults) console.error(describeAttributionFault(fault));
    return FAILED;
  }
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const [result] = await attributeRounds(DATABASE, operator, [read]);
  if (result === undefined) throw new Error('the store answered no attribution');
  if (isRefused(result)) {
    console.error(refusal(result));
    return FAILED;
  }
  console.log(ONE_ROUND[result.outcome]);
  return DONE;
}

const ONE_ROUND: Readonly<Record<AttributionOutcome, string>> = {
  set: 'set: promotions credit the round to the player',
  unchanged: 'unchanged: promotions credited the round to the player before',
  erased: 'nothing stored: a player of the round was erased',
  conflict: '',
  invalid: '',
  lost: '',
};

/** Replaces the player of a round that was attributed by mistake. @returns the exit code */
export async function attributeCorrect(options: Options): Promise<number> {
  const text = (name: string) => options.get(name) ?? '';
  const { was, player } = await replacedPlayerOf(options);
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const outcome = await correctAttribution(
    DATABASE,
    { requestedBy: requestedBy(options) },
    {
      operator: text('operator'),
      roundId: text('round'),
      was,
      promoPlayerRef: player,
      words: text('words'),
      feedId: options.get('feed') ?? null,
    },
  );
  console.log(CORRECTED[outcome]);
  return DONE;
}

const CORRECTED: Readonly<Record<CorrectionOutcome, string>> = {
  corrected:
    'corrected: promotions credit the round to the other player; promo.operations has the correction',
  unchanged: ONE_ROUND.unchanged,
  erased: 'nothing changed: a player of the round was erased',
};

export interface AttributionFile {
  /** `-` is standard input. */
  readonly file: string;
  readonly operator: string;
}

/**
 * Sets the player of each line's round.
 *
 * @returns the exit code: 1 if a line is refused, or on an interruption
 */
export async function attributeFile({ file, operator }: AttributionFile, stop: AbortSignal): Promise<number> {
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const counts = new Map<AttributionOutcome, number>();
  let [lines, waiting]: [number, NumberedAttribution[]] = [0, []];
  const refuse = (number: number, text: string) => console.error(`${file}:${number}: ${text}`);
  const count = (outcome: AttributionOutcome) => counts.set(outcome, (counts.get(outcome) ?? 0) + 1);

  const setSome = async () => {
    const some = waiting;
    waiting = [];
    if (some.length === 0) return;
    const results = await attributeRounds(DATABASE, operator, some);
    for (const [index, result] of results.entries()) {
      count(result.outcome);
      if (isRefused(result)) refuse(some[index]?.number ?? 0, refusal(result));
    }
  };

  try {
    for await (const some of readLines(openInput(file, stop))) {
      for (const line of some) {
        lines++;
        const read = readAttributionLine(line, operator);
        if ('faults' in read) {
          count('invalid');
          for (const fault of read.faults) refuse(line.number, describeAttributionFault(fault));
        } else {
          waiting.push({ ...read, number: line.number });
          if (waiting.length === ATTRIBUTIONS_AT_ONCE) await setSome();
        }
        if (lines % LINES_OF_PROGRESS === 0) console.error(`${file}: ${counted(lines, 'line')} so far`);
      }
    }
  } catch (error) {
    if (!stop.aborted) throw error;
  }
  await setSome();

  const of = (outcome: AttributionOutcome) => counts.get(outcome) ?? 0;
  const refused = of('conflict') + of('invalid') + of('lost');
  console.log(
    `${file}: ${stop.aborted ? 'interrupted; so far ' : ''}${counted(lines, 'line')}: ${of('set')} set, ${of('unchanged')} unchanged, ` +
      `${of('erased')} of erased players and not stored, ${refused} refused (${of('invalid')} invalid, ${of('conflict')} with another player, ${of('lost')} to set again)`,
  );
  return refused === 0 && !stop.aborted ? DONE : FAILED;
}

const LINES_OF_PROGRESS = 50_000;

interface NumberedAttribution extends Attribution {
  /** The number of its line. */
  readonly number: number;
}

function isRefused({ outcome }: AttributionResult): boolean {
  return outcome === 'conflict' || outcome === 'invalid' || outcome === 'lost';
}

function refusal({ outcome, problem }: AttributionResult): string {
  return `${outcome === 'invalid' ? 'InvalidArgument: ' : ''}${inOneLine(problem ?? '')}`;
}
