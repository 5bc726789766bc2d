/** Faults that a caller orders by a header, to test how its client retries. */
import {
  isServiceErrorName,
  type MessageToken,
  SERVICE_ERROR_NAMES,
  SERVICE_ERRORS,
  type ServiceErrorName,
} from '../contract/service-errors';

export const FAULT_HEADER = 'x-sandbox-fault';
export const DELAY_HEADER = 'x-sandbox-delay-ms';
export const LONGEST_DELAY_MS = 30_000;
const MOST_TIMES = 100;

export interface OrderedFault {
  readonly name: ServiceErrorName;
  /** The token of the message; undefined: the first of the row. */
  readonly token: MessageToken | undefined;
  /** How often the same call fails before it succeeds. Null: always. */
  readonly times: number | null;
  /** Whether the call takes effect, and only its answer is lost. */
  readonly isAfter: boolean;
}

export type ReadOrder<T> = { readonly order: T | null } | { readonly problem: string };

/** Reads `NAME[; times=N][; after]`. NAME is the name of an error or a token of the contract. */
export function readFaultOrder(header: string | undefined): ReadOrder<OrderedFault> {
  if (header === undefined) return { order: null };
  const [written = '', ...options] = header.split(';').map((part) => part.trim());
  const found = findError(written);
  if (found === undefined)
    return {
      problem: `${FAULT_HEADER} names no error; the names are ${SERVICE_ERROR_NAMES.join(', ')}, and the tokens of the contract`,
    };
  let [times, isAfter]: [number | null, boolean] = [null, false];
  for (const option of options) {
    const [key, value] = option.split('=').map((part) => part.trim());
    const count = key === 'times' ? parseWhole(value, 1, MOST_TIMES) : undefined;
    if (option === 'after') isAfter = true;
    else if (count !== undefined) times = count;
    else
      return { problem: `${FAULT_HEADER} has an unknown option; write times=1 to ${MOST_TIMES}, or after` };
  }
  return { order: { ...found, times, isAfter } };
}

/** Reads the time that a call takes, in milliseconds. */
export function readDelayOrder(header: string | undefined): ReadOrder<number> {
  if (header === undefined) return { order: null };
  const order = parseWhole(header, 0, LONGEST_DELAY_MS);
  return order === undefined
    ? { problem: `${DELAY_HEADER} is not a whole number from 0 to ${LONGEST_DELAY_MS}` }
    : { order };
}

function findError(written: string): Pick<OrderedFault, 'name' | 'token'> | undefined {
  if (isServiceErrorName(written)) return { name: written, token: undefined };
  for (const name of SERVICE_ERROR_NAMES) {
    const token = tokensOf(name).find((each) => each === written);
    if (token !== undefined) return { name, token };
  }
  return undefined;
}

function tokensOf(name: ServiceErrorName): readonly MessageToken[] {
  return SERVICE_ERRORS[name].tokens;
}

function parseWhole(text: string | undefined, least: number, most: number): number | undefined {
  const value = text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  return value >= least && value <= most ? value : undefined;
}
