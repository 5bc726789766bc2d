/** The generated files, and their comparison with the committed ones. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { WALLET_FAILURE_SCHEMA, WALLET_REQUEST_SCHEMA } from '../../src/contract/envelope';
import { ERROR_BODY_SCHEMA } from '../../src/contract/error-body';
import { CURRENCIES } from '../../src/domain/event/money';
import { EVENT_SCHEMA } from '../../src/domain/event/schema';
import { COMPLETION_SCHEMA } from '../../src/promotion-publishing/completion-schema';
import { VERDICT_SCHEMA } from '../../src/publishing/verdict-schema';
import { SANDBOX_OPENAPI } from '../../src/sandbox/openapi';
import { openApiDocument } from '../../src/webhook/openapi';
import { RECONCILE_REQUEST_SCHEMA, RECONCILIATION_SCHEMA } from '../../src/webhook/reconciling';
import { ANSWER_SCHEMA } from '../../src/webhook/responses';
import { reportFiles } from '../bench/report';
import { renderAsyncApi } from './asyncapi';
import { renderAvroSchema } from './avro';
import { CHART, renderChartReadme, renderSchema as renderValuesSchema } from './chart';
import { renderConfiguration } from './configuration';
import { renderContract } from './contract';
import { renderFaults } from './faults';
import { completionExamples, verdictExamples } from './message-examples';
import { renderMetrics } from './metrics';
import { promotionSchema } from './promotion-schema';
import { reportPictures } from './report-pictures';
import { renderVerdicts } from './verdicts';

/** Makes everything but the tables. */
const GENERATE_COMMAND = 'node build/dev/generate.js';
/** Makes the tables, for which it needs Postgres. */
export const GENERATE_TABLES_COMMAND = `${GENERATE_COMMAND} tables`;

export interface GeneratedFile {
  /** Path from the project's root. */
  readonly path: string;
  readonly content: string;
  /** The command that makes it. */
  readonly command: string;
}

/** All files that can be generated without a server. */
export function generatedFiles(root: string): GeneratedFile[] {
  const file = (path: string, content: string) => ({ path, content, command: GENERATE_COMMAND });
  return [
    file('schemas/promo.event.v1.json', renderSchema(EVENT_SCHEMA)),
    file('schemas/promo.event.v1.avsc', renderAvroSchema()),
    file('schemas/promo.verdict.v1.json', renderSchema(VERDICT_SCHEMA)),
    ...verdictExamples().map(([name, content]) => file(`schemas/examples/verdicts/${name}`, content)),
    file('schemas/promo.completion.v1.json', renderSchema(COMPLETION_SCHEMA)),
    ...completionExamples().map(([name, content]) => file(`schemas/examples/completions/${name}`, content)),
    file('schemas/promo.answer.v1.json', renderSchema(ANSWER_SCHEMA)),
    file('schemas/promo.reconcile.v1.json', renderSchema(RECONCILE_REQUEST_SCHEMA)),
    file('schemas/promo.reconciliation.v1.json', renderSchema(RECONCILIATION_SCHEMA)),
    file('schemas/operator.error.v2.json', renderSchema(ERROR_BODY_SCHEMA)),
    file('schemas/webhook.openapi.json', renderSchema(openApiDocument())),
    file('schemas/topics.asyncapi.json', renderAsyncApi()),
    file('schemas/wallet.request.v2.json', renderSchema(WALLET_REQUEST_SCHEMA)),
    file('schemas/wallet.error.v2.json', renderSchema(WALLET_FAILURE_SCHEMA)),
    file('schemas/sandbox.openapi.json', renderSchema(SANDBOX_OPENAPI)),
    file('schemas/CONTRACT.md', renderContract(GENERATE_COMMAND)),
    file('schemas/promotions.schema.json', renderSchema(promotionSchema())),
    file(REFERENCE_SCHEMA, withCurrencies(REFERENCE_SCHEMA, readIfThere(join(root, REFERENCE_SCHEMA)) ?? '')),
    file('schemas/VERDICTS.md', renderVerdicts(GENERATE_COMMAND)),
    file('docs/configuration.md', renderConfiguration(GENERATE_COMMAND)),
    file('docs/metrics.md', renderMetrics(GENERATE_COMMAND)),
    file(`${CHART}/values.schema.json`, renderValuesSchema(root)),
    file(`${CHART}/README.md`, renderChartReadme(GENERATE_COMMAND, root)),
    file('docs/faults.md', renderFaults(GENERATE_COMMAND)),
    ...reportPictures().map(([name, content]) => file(`docs/pictures/${name}`, content)),
    ...reportFiles(root).map(({ path, text }) => file(path, text)),
  ];
}

/** The picture of docs/analysts/dashboard.md. */
export function dashboardFile(content: string): GeneratedFile {
  return { path: 'docs/pictures/dashboard.svg', content, command: GENERATE_TABLES_COMMAND };
}

export function tablesFile(content: string): GeneratedFile {
  return { path: 'docs/tables.md', content, command: GENERATE_TABLES_COMMAND };
}

/** Made by hand except for the list of currencies. */
const REFERENCE_SCHEMA = 'schemas/reference.schema.json';
const CURRENCY_LIST = /("enum": \[\n\s*)"JPY",[^\]]*?(\n\s*\])/;

/** @throws where the schema has no list of currencies */
function withCurrencies(path: string, schema: string): string {
  if (!CURRENCY_LIST.test(schema)) throw new Error(`${path} has no list of currencies`);
  const codes = CURRENCIES.map(({ code }) => `"${code}"`).join(', ');
  return schema.replace(CURRENCY_LIST, (_, before: string, after: string) => `${before}${codes}${after}`);
}

/** In the order of the source, in which people read it. */
function renderSchema(schema: object): string {
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** A sentence for each file whose committed content differs. */
export function driftOf(files: readonly GeneratedFile[], root: string): string[] {
  return files.flatMap(({ path, content, command }) => {
    const committed = readIfThere(join(root, path));
    if (committed === content) return [];
    const what =
      committed === undefined
        ? 'is missing'
        : `differs from what it is generated from, first in line ${firstDifference(committed, content)}`;
    return [`${path} ${what}; run: ${command}`];
  });
}

/** @returns the paths that changed */
export function writeFiles(files: readonly GeneratedFile[], root: string): string[] {
  const changed = files.filter(({ path, content }) => readIfThere(join(root, path)) !== content);
  for (const { path, content } of changed) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return changed.map(({ path }) => path);
}

function firstDifference(a: string, b: string): number {
  const lines = b.split('\n');
  const index = a.split('\n').findIndex((line, i) => line !== lines[i]);
  return (index < 0 ? a.split('\n').length : index) + 1;
}

function readIfThere(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}
