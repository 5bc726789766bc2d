/** A verdict as one sentence, for people. */
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
}

/** "bet b-1 of 10.50 EUR is rejected/bad_amount. Correct it." */
export function sentenceOf({ kind, event_id: id, amount, currency, name, remedy }: SentenceParts): string {
  const money = amount === null ? '' : ` of ${amount}${currency === null ? '' : ` ${currency}`}`;
  const event = `${kind ?? 'event'} ${id === null ? 'without an id' : inOneLine(id)}${money}`;
  return `${event} is ${name}.${remedy === null ? '' : ` ${remedy}`}`;
}
