/** Texts of SQL for people to paste. Statements of this program have parameters instead. */
import { escapeLiteral } from 'pg';

export function quoteLiteral(text: string): string {
  return escapeLiteral(text);
}
