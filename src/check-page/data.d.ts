/** The data that dev/check-page.ts puts into the page in place of this file. */
import type { ReferenceDocument } from '../domain/reference';

export interface Example {
  /** Below schemas/examples. */
  readonly file: string;
  readonly connection: string;
  readonly verdict: string;
  readonly reason: string | null;
  readonly says: string;
  /** The file, in base64. */
  readonly bytes: string;
  /** Files that come before this one. */
  readonly after?: readonly string[];
}

export declare const version: string;
export declare const reference: ReferenceDocument;
export declare const examples: readonly Example[];
