/**
 * The tables that a fold of promotions reads and writes, as values that never change. A transaction works on
 * copies, so that a store can also fall back to each earlier state.
 */
import { BATCH_NUMBERS } from '../../src/fold/statements';
import { POSTGRES_EPOCH_MICROS } from '../../src/postgres/binary-format';
import { BEFORE_ALL } from '../../src/promotions/calendar';
import type { DefinedVersion } from '../../src/promotions/timeline';
import { readArray, type Text } from './wire';

/** A verdict of an event. Times are microseconds since 1970. */
export interface Verdict {
  readonly verdictId: number;
  readonly eventId: string;
  readonly operatorId: string;
  readonly kind: number;
  readonly round: string | null;
  readonly roundNo: number | null;
  readonly brand: string;
  readonly player: string;
  readonly currency: string | null;
  readonly amount: bigint;
  readonly game: string | null;
  readonly occurredAt: bigint;
  readonly decidedAt: bigint;
  readonly isCounted: boolean;
}

export interface RefundedRound {
  readonly roundNo: number;
  readonly openedAt: bigint;
  readonly refundedAt: bigint;
  readonly refundedBy: string;
}

/** From its number on, entries of a round count for another player. */
export interface CreditRow {
  readonly changeNo: number;
  readonly round: string;
  /** Entries of this brand alone; null: of any brand. */
  readonly brand: string | null;
  readonly player: string;
  readonly at: bigint;
  /** An erasure of a player of the round. */
  readonly erases?: true;
}

export interface PromotionRow extends DefinedVersion {
  readonly promotionNo: number;
  readonly documentVersion: number;
}

/** A month that retention has dropped. */
export interface DroppedMonth {
  /** History has nothing that was decided before this time. */
  readonly to: bigint;
  /** The verdicts that are gone. Keys and rounds still know them. */
  readonly verdicts: readonly Verdict[];
  /** The cursor of the shown generation at that moment: it never counts the later ones of these verdicts. */
  readonly countedTo: number;
}

/** The tables that other processes write. */
export interface LedgerTables {
  readonly history: readonly Verdict[];
  /** Null: all months are kept. */
  readonly dropped: DroppedMonth | null;
  readonly refunds: ReadonlyMap<number, RefundedRound>;
  /** Null: no player was erased. */
  readonly erasure: {
    readonly player: string;
    readonly isDone: boolean;
    /** The highest number that it has given to an attribution. */
    readonly upTo: number;
  } | null;
  /** The attributions of rounds and their corrections. */
  readonly credits: readonly CreditRow[];
  readonly versions: readonly PromotionRow[];
  /** An older version of the process counted verdicts up to this number, and recorded no rounds. */
  readonly recordedAfter: number;
}

export interface FoldRow {
  readonly generation: number;
  readonly holder: string | null;
  readonly heldUntil: bigint | null;
}

export interface GenerationRow {
  readonly generation: number;
  readonly state: string;
  readonly after: number;
  readonly lineage: string;
  readonly newestAt: bigint | null;
  readonly caughtUpAt: bigint | null;
  readonly completeSince: bigint;
}

export interface WindowRow {
  readonly windowNo: number;
  readonly promotionNo: number;
  readonly version: number;
  readonly key: string;
  readonly startsAt: bigint | null;
  readonly endsAt: bigint | null;
  readonly closesAt: bigint | null;
}

export interface ProgressState {
  readonly generation: number;
  readonly windowNo: number;
  readonly player: string;
  readonly items: readonly string[];
  readonly currencies: readonly string[];
  readonly amounts: readonly string[];
  readonly attained: string;
  readonly hasAttempts: string;
  readonly score: bigint;
  readonly scoredNo: number | null;
  readonly changedNo: number;
  readonly changedAt: bigint;
}

export interface AttemptState {
  readonly generation: number;
  readonly windowNo: number;
  readonly player: string;
  readonly ordinal: number;
  readonly attempt: number;
  readonly isHeld: boolean;
  readonly decidedNo: number | null;
  readonly decidedAt: bigint;
  readonly confirmsAt: bigint | null;
}

/** The entries of a round in a part of a slice. */
export interface RecordState {
  readonly generation: number;
  readonly roundNo: number;
  readonly lastNo: number;
  readonly verdictIds: readonly number[];
  readonly entriesBefore: number;
  readonly isSummed: boolean;
  /** The latest time of the entries. */
  readonly newestAt: bigint;
}

/** What summed entries of a round count. */
export interface SumState {
  readonly generation: number;
  readonly roundNo: number;
  /** The first day of the month of the entries. */
  readonly month: string;
  readonly windowNo: number;
  readonly player: string;
  readonly brand: string;
  readonly item: string;
  readonly currency: string;
  readonly amount: bigint;
}

export interface CompletionRow {
  readonly id: string;
  /** 0: completed. 1: revoked. 2: confirmed. */
  readonly change: number;
  readonly windowNo: number;
  readonly player: string;
  readonly ordinal: number;
  readonly attempt: number;
  readonly changedAt: bigint;
}

/** A version of an erased attribution that promotions have counted. */
export interface ErasedCreditRow {
  readonly round: string;
  readonly changeNo: number;
  readonly erasedNo: number;
  readonly erasedAt: bigint;
  /** The player whose progress has the round. */
  readonly player: string;
}

/** The tables that the fold writes. The keys of rows are their primary keys, joined. */
export interface FoldTables {
  fold: FoldRow | null;
  readonly generations: Map<number, GenerationRow>;
  readonly counted: Map<string, { readonly generation: number; readonly removedAt: bigint | null }>;
  readonly windows: Map<number, WindowRow>;
  readonly progress: Map<string, ProgressState>;
  readonly attempts: Map<string, AttemptState>;
  readonly boards: Map<string, { readonly generation: number; readonly windowNo: number }>;
  readonly completions: CompletionRow[];
  readonly records: Map<string, RecordState>;
  readonly sums: Map<string, SumState>;
  readonly recordings: Map<number, { readonly generation: number; readonly after: number }>;
  /** Progress that an erasure has joined from two names. */
  readonly joins: Map<
    string,
    { readonly generation: number; readonly windowNo: number; readonly player: string }
  >;
  readonly erasedCredits: Map<string, ErasedCreditRow>;
}

/** A migration adds the row of the fold. */
export const emptyTables = (): FoldTables => ({
  fold: { generation: 0, holder: null, heldUntil: null },
  generations: new Map(),
  counted: new Map(),
  windows: new Map(),
  progress: new Map(),
  attempts: new Map(),
  boards: new Map(),
  completions: [],
  records: new Map(),
  sums: new Map(),
  recordings: new Map(),
  joins: new Map(),
  erasedCredits: new Map(),
});

export const copyTables = (tables: FoldTables): FoldTables => ({
  fold: tables.fold,
  generations: new Map(tables.generations),
  counted: new Map(tables.counted),
  windows: new Map(tables.windows),
  progress: new Map(tables.progress),
  attempts: new Map(tables.attempts),
  boards: new Map(tables.boards),
  completions: [...tables.completions],
  records: new Map(tables.records),
  sums: new Map(tables.sums),
  recordings: new Map(tables.recordings),
  joins: new Map(tables.joins),
  erasedCredits: new Map(tables.erasedCredits),
});

/** All verdicts that the store has made: its keys and rounds outlive the months of history. */
export const everDecided = ({ history, dropped }: LedgerTables): readonly Verdict[] =>
  dropped === null ? history : [...dropped.verdicts, ...history];

export const keyOfRow = (...parts: readonly (string | number)[]): string => parts.join('\0');

/** The highest number of a verdict that a batch can have. */
export const lastNumberOf = (batchNo: number): number => (batchNo + 1) * BATCH_NUMBERS - 1;

// --- values of statements

/** The elements of an array parameter, binary or not. */
export function listOf(value: unknown): Text[] {
  if (Buffer.isBuffer(value)) return readArray(value);
  if (!Array.isArray(value)) throw new Error('the parameter is no list');
  return value.map((each: unknown) => (each === null ? null : String(each)));
}

export const numbersOf = (value: unknown): number[] => listOf(value).map(Number);

export const textsOf = (value: unknown): string[] => listOf(value).map((each) => each ?? '');

/** The elements of an array in the form of text, such as `{"a","b"}` or `{1,2}`. */
export function arrayOf(text: string): string[] {
  return text === '{}'
    ? []
    : text
        .slice(1, -1)
        .split(',')
        .map((each) => each.replaceAll(/^"|"$/g, ''));
}

/** A timestamp, from one of the texts that the code under test sends. */
export function instantOf(value: unknown): bigint | null {
  if (value === null || value === undefined) return null;
  const text = String(value);
  if (text === '-infinity') return BEFORE_ALL;
  if (/^-?\d+$/.test(text)) return BigInt(text);
  const [, millis = '', micros = '0'] = /^(.*\.\d{3})(\d{3})?Z$/.exec(text) ?? [];
  return BigInt(Date.parse(`${millis}Z`)) * 1_000n + BigInt(micros);
}

export const timeText = (micros: bigint | null): Text => {
  if (micros === null) return null;
  return micros <= BEFORE_ALL ? '-infinity' : String(micros);
};

/** The bytes of a timestamp as Postgres sends them, as hex digits: microseconds since 2000. */
export const sentText = (micros: bigint): string => {
  const bytes = BigInt.asUintN(64, micros - POSTGRES_EPOCH_MICROS);
  return `\\x${bytes.toString(16).padStart(16, '0')}`;
};

export const flag = (holds: boolean): string => (holds ? 't' : 'f');

export const numberText = (value: number | bigint | null): Text => (value === null ? null : String(value));
