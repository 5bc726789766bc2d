/** `promo-intake try`: a webhook over a Postgres of its own, for tests of a sender, until a signal. */
import { isIP } from 'node:net';
import { MAX_BYTES, MAX_EVENTS } from '../../check/request-limits';
import { USAGE } from '../../cli/exit-codes';
import { refusePort } from '../../cli/explain-error';
import { integerOf, type Options, wrongOption } from '../../cli/option-values';
import { print } from '../../cli/output';
import type { ReferenceDocument } from '../../domain/reference';
import { runMigrations } from '../../ledger/migrate';
import { applyReference, makeReferences } from '../../ledger/reference-store';
import { systemClock } from '../../lib/clock';
import { inOneLine, quoted } from '../../lib/printable';
import { type ParsedReference, readReference } from '../../reference-file/reference-file';
import { makeLogger } from '../../telemetry/logger';
import { makeMetrics } from '../../telemetry/metrics';
import { makeEventLog } from '../../try/event-log';
import { EXAMPLE_REFERENCE, firstRequest, tryKeyOf, trySecretOf } from '../../try/example';
import { recordAnswers } from '../../try/recording';
import { makeTryRequests } from '../../try/requests';
import { emptyStore, startThrowawayPostgres } from '../../try/throwaway-postgres';
import { serveWebhook, type Webhook } from '../../webhook/server';
import { postgresComponent } from '../services/components';
import { makeStart, needStore, serveInTerminal } from '../services/service';
import { servedCheckPage } from '../shared/check-page';
import { printFileFaults } from '../shared/file-faults';
import { readReferenceInput } from '../shared/reference-input';
import { startDeciding } from './deciding-components';

const DEFAULT_PORT = 8_081;
const DEFAULT_ADDRESS = '127.0.0.1';
const SLOTS = 4;
/** Parts of a program under test may share an address. */
const LIMITS = { connections: 1_000, perAddress: 1_000 };
const STOP_WITHIN_MS = 5_000;
const EXAMPLE_NAME = 'the example';

/** @returns the exit code */
export async function tryIntake(options: Options): Promise<number> {
  const began = performance.now();
  const port = integerOf(options, 'port') ?? DEFAULT_PORT;
  const listenOn = options.get('address') ?? DEFAULT_ADDRESS;
  if (isIP(listenOn) === 0)
    throw wrongOption(
      'address',
      `${quoted(listenOn)} is no IP address`,
      'Write one, such as 127.0.0.1 or 0.0.0.0',
    );
  const file = options.get('reference');
  const parsed = await readTryReference(file);
  if ('faults' in parsed) {
    printFileFaults(file ?? EXAMPLE_NAME, parsed.faults, 'nothing was started');
    return USAGE;
  }
  const connections = connectionsOf(parsed.document);
  if (connections.length === 0) {
    console.error(`${file}: no connection has the transport webhook; add one. Nothing was started`);
    return USAGE;
  }
  const [metrics, logger] = [makeMetrics('webhook'), makeLogger('warn', 'stderr')];
  const log = makeEventLog(Date.now);
  console.error('starting a throwaway Postgres; this takes some seconds');

  return serveInTerminal(
    {
      name: 'intake',
      stopWithinMs: STOP_WITHIN_MS,
      async start({ start, stop }) {
        const postgres = await start({
          name: 'the throwaway postgres',
          start: () => startThrowawayPostgres(logger),
          stop: (server) => server.stop(),
          ended: async ({ ended }, stop) => {
            const last = await ended;
            if (!stop.aborted) logger.fatal({ log: last }, 'the throwaway postgres has ended');
            return 'the throwaway postgres has ended';
          },
        });
        const access = { databaseUrl: postgres.databaseUrl };
        await runMigrations(access);
        const forDeciding = { ...access, maxConnections: SLOTS + 1, applicationName: 'promo-intake-try' };
        const pool = await start(postgresComponent(forDeciding, logger));
        await needStore(makeStart(stop, logger), access, pool);
        await applyReference(pool, parsed.document, () => true);
        const references = makeReferences(pool);
        const options = {
          access,
          store: pool,
          references,
          isPublished: true,
          tracing: null,
          metrics,
          logger,
        };
        const deciding = await startDeciding({ start }, options);
        const recording = recordAnswers(deciding.intake, log);
        let server: Webhook | undefined;
        const checkPage = await servedCheckPage(logger);
        const secrets = new Map(connections.map((id) => [id, [tryKeyOf(id)]]));
        server = await start({
          name: 'server',
          start: () =>
            serveWebhook(port, {
              ...deciding,
              intake: recording.intake,
              publishVerdicts: null,
              slots: SLOTS,
              logger,
              metrics,
              maxEvents: MAX_EVENTS,
              maxBytes: MAX_BYTES,
              limits: LIMITS,
              trustedProxies: [],
              clock: systemClock,
              now: Date.now,
              listenOn,
              checkPage,
              secretsOf: (connectionId) => secrets.get(connectionId) ?? [],
              onRefused: ({ requestId, connectionId }, { status, token, text }) =>
                log.addRefusal({
                  request_id: requestId,
                  connection_id: connectionId,
                  status,
                  message: `${token}: ${text}`,
                }),
              answerAside: makeTryRequests({
                log,
                reset: () =>
                  recording.pause(async () => {
                    await emptyStore(pool);
                    server?.forgetAnswers();
                    log.clear();
                  }),
              }),
            }).catch(refusePort('--port')),
          stop: (running, withinMs) => running.close(withinMs),
        });
        await print(welcome(server.port, connections, postgres.databaseUrl, performance.now() - began));
      },
    },
    logger,
  );
}

async function readTryReference(file: string | undefined): Promise<ParsedReference> {
  if (file === undefined) return readReference(Buffer.from(EXAMPLE_REFERENCE), EXAMPLE_NAME);
  return readReferenceInput(file);
}

function connectionsOf({ operators }: ReferenceDocument): string[] {
  return operators.flatMap(({ connections }) =>
    connections.flatMap(({ id, transport }) => (transport === 'webhook' ? [id] : [])),
  );
}

function welcome(port: number, connections: readonly string[], databaseUrl: string, tookMs: number): string {
  const address = `http://127.0.0.1:${port}`;
  const [first = ''] = connections;
  const secrets = connections.map(
    (id) => `  secret    ${trySecretOf(id)} of ${inOneLine(id)}, not for production`,
  );
  return `A throwaway intake. Its data is gone when it ends. Ctrl-C ends it.

  page      ${address}/try
  events    POST ${address}/v1/events/${encodeURIComponent(first)}
  rejected  ${address}/try/events?verdict=rejected
  reset     POST ${address}/try/reset
  database  ${databaseUrl}
${secrets.join('\n')}

Send a first event, by curl and openssl:

${firstRequest(address, first)}

Or send a file of events:

export WEBHOOK_SECRETS='${JSON.stringify({ [first]: trySecretOf(first) })}'
promo-intake send events.ndjson --url ${address} --connection ${first}

Or ask which events of a file never came:

promo-intake reconcile events.ndjson --url ${address} --connection ${first}

promo-intake try is ready, after ${(tookMs / 1_000).toFixed(1)} s
`;
}
