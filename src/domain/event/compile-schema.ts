/** Compiles the event's schema by ajv, which makes a function of it, as source text. */
import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020';
import { EVENT_SCHEMA } from './schema';
import { FORMATS } from './schema-words';

/** Options of ajv that decide how the function is made: dev/check-page.ts has others. */
type CodeOptions = NonNullable<NonNullable<ConstructorParameters<typeof Ajv2020>[0]>['code']>;

/** @returns the ajv, and the function that it made of the schema */
export function compileEventSchema(code: CodeOptions): { ajv: Ajv2020; matches: ValidateFunction } {
  // A test checks the schema against its meta-schema. The meta-schema has patterns that `amountPattern`
  // cannot match.
  const ajv = new Ajv2020({ allErrors: true, strictRequired: false, validateSchema: false, code });
  for (const [name, format] of Object.entries(FORMATS)) ajv.addFormat(name, format);
  return { ajv, matches: ajv.compile(EVENT_SCHEMA) };
}
