/** A verdict as one sentence, for people. */
import { REASONS, type Reason } from '../domain/verdict/reasons';
import { inOneLine } from '../lib/printable';

export interface SentenceParts {
  readonly kind: string | null;
  readonly event_id: string | null;
  /** In major units. */
  readonly amount: string | null;
  readonly currency: string | null;
  /** The verdict and its reason: see nameOf. */
  readonly name: string;
  readonly remedy: string | null;
  /** The places of the faults, as JSON pointers. Absent or empty: not known. */
  readonly fields?: readonly string[];
}

/** "bet b-1 is rejected/malformed at /occurred_at. Correct it." */
export function sentenceOf(parts: SentenceParts): string {
  const { kind, event_id: id, amount, currency, name, remedy, fields = [] } = parts;
  const money = amount === null ? '' : ` of ${amount}${currency === null ? '' : ` ${currency}`}`;
  const event = `${kind ?? 'event'} ${id === null ? 'without an id' : inOneLine(id)}${money}`;
  const places = fields.length === 0 ? '' : ` at ${fields.map((field) => inOneLine(field)).join(' and ')}`;
  return `${event} is ${name}${places}.${remedy === null ? '' : ` ${remedy}`}`;
}

/** Reasons that come from the round or from the service, and so never with the details of a field. */
const WITHOUT_DETAILS: readonly (string | null)[] = ['round_refunded', 'panic'] satisfies Reason[];

/** The end of the name of a verdict without details: the meaning of its reason, where no field has it. */
export function endOfName(reason: string | null): string {
  const found = REASONS.find(({ name }) => name === reason && WITHOUT_DETAILS.includes(name));
  return found === undefined ? '.' : `: ${found.meaning}`;
}
