/** The fuzzer notices a service that is not as its document says, and accepts one that is. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFuzzer, fuzz } from '../../dev/fuzzer';
import { testWhere } from '../support/needed';
import { serve } from '../support/serve';

const DEADLINE_MS = 300_000;
const answerOf = (type: string) => ({
  description: 'An answer',
  content: { 'application/json': { schema: { type: 'object', properties: { n: { type } } } } },
});
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'A service of a test', version: '1' },
  paths: {
    '/n': {
      get: {
        operationId: 'n',
        parameters: [
          { in: 'header', name: 'x-key', required: true, schema: { type: 'string', enum: ['signed'] } },
        ],
        responses: { 200: answerOf('integer'), 400: answerOf('integer'), 405: answerOf('integer') },
      },
    },
  },
};
const HOOKS = `
import os, schemathesis

@schemathesis.hook
def before_call(ctx, case, kwargs):
    case.headers["x-key"] = os.environ["KEY"]
`;

/** A service whose answers hold the value. It refuses requests that the hooks did not change. */
const serveValue = (value: unknown) =>
  serve(
    createServer((request, response) => {
      const isSigned = request.headers['x-key'] === 'of the hooks';
      const status = request.method === 'GET' ? (isSigned ? 200 : 400) : 405;
      response
        .writeHead(status, { 'content-type': 'application/json', allow: 'GET' })
        .end(JSON.stringify({ n: isSigned ? value : 0 }));
    }),
  );

testWhere(findFuzzer())(
  'the fuzzer finds an answer that the document does not have, by requests that hooks have signed',
  async (python) => {
    const directory = mkdtempSync(join(tmpdir(), 'promo-intake-test-'));
    const [document, hooks] = [join(directory, 'openapi.json'), join(directory, 'hooks.py')];
    writeFileSync(document, JSON.stringify(DOCUMENT));
    writeFileSync(hooks, HOOKS);
    const findingsFor = async (value: unknown) => {
      const { port, close } = await serveValue(value);
      try {
        const baseUrl = `http://127.0.0.1:${port}`;
        const options = [
          '--phases',
          'coverage',
          '--exclude-checks',
          'negative_data_rejection,missing_required_header',
        ];
        const environment = { KEY: 'of the hooks' };
        const report = await fuzz(python, {
          document,
          hooks,
          baseUrl,
          environment,
          options,
          seconds: 20,
        });
        return report.findings;
      } finally {
        await close();
      }
    };
    try {
      expect(await findingsFor(1)).toEqual([]);
      expect(await findingsFor('one')).toEqual(['ST108 Response violates schema: GET /n']);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
  DEADLINE_MS,
);
