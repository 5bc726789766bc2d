/**
 * Checks an object against the event's schema by ajv. A page may not run the source text that ajv makes. So
 * the build of src/check-page makes the function in advance, and puts it in place of this file.
 */
import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020';
import type { Json } from './event';
import { amountPattern } from './schema-words';

let matches: ValidateFunction | undefined;

/** Every broken rule of the schema. Empty where the object keeps it. */
export function schemaErrors(json: Json): readonly ErrorObject[] {
  matches ??= compile();
  return matches(json) ? [] : (matches.errors ?? []);
}

/**
 * Loads ajv when the first event needs it, and not before: that takes a third of the start of a worker. Most
 * processes never read an event that the scan leaves to the schema.
 */
function compile(): ValidateFunction {
  const { compileEventSchema }: typeof import('./compile-schema') = require('./compile-schema');
  return compileEventSchema({ regExp: amountPattern }).matches;
}
