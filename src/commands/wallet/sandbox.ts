/** `promo-intake sandbox`: a service to write and test clients against, until a signal stops it. */
import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { USAGE } from '../../cli/exit-codes';
import { refusePort, Unable } from '../../cli/explain-error';
import { integerOf, type Options } from '../../cli/option-values';
import { readConfig } from '../../config/config';
import { systemClock } from '../../lib/clock';
import { counted } from '../../lib/printable';
import { parseSandboxConfig } from '../../sandbox/config-file';
import { makeSandboxHandler } from '../../sandbox/handler';
import { SANDBOX_OPENAPI } from '../../sandbox/openapi';
import { makeOperations } from '../../sandbox/operations';
import { publishRounds } from '../../sandbox/publisher';
import { makeRoundOperations } from '../../sandbox/round-operations';
import { makeRoundStore } from '../../sandbox/round-store';
import { makeRounds } from '../../sandbox/rounds';
import { serveSandbox } from '../../sandbox/server';
import { makeSessionStore } from '../../sandbox/session-store';
import { prepareSandboxTables, SANDBOX_SCHEMA } from '../../sandbox/tables';
import { makeLogger } from '../../telemetry/logger';
import { makeCallStore } from '../../wallet/call-store';
import { makeWalletCalls } from '../../wallet/calls';
import { loopComponent, postgresComponent } from '../services/components';
import { makeStart, needStore, serveInTerminal } from '../services/service';
import { printFileFaults } from '../shared/file-faults';
import { SANDBOX_SETTINGS } from '../shared/settings';
import { readSandboxFiles } from './sandbox-files';

const DEFAULT_PORT = 8_082;
const CONNECTIONS = 12;
const FAULTY = 'nothing was started';

/** @returns the exit code */
export async function sandbox(options: Options): Promise<number> {
  const port = integerOf(options, 'port') ?? DEFAULT_PORT;
  const settings = readConfig(process.env, SANDBOX_SETTINGS);
  const { DATABASE, LOG_LEVEL } = settings;
  const file = options.get('file') ?? '';
  const parsed = parseSandboxConfig(await readFile(file, 'utf8'), file);
  if ('faults' in parsed) {
    printFileFaults(file, parsed.faults, FAULTY);
    return USAGE;
  }
  const { config } = parsed;
  const files = await readSandboxFiles(config, file, DATABASE);
  if ('problems' in files) {
    for (const problem of files.problems) console.error(problem);
    console.error(`${counted(files.problems.length, 'fault')} in files that ${file} names; ${FAULTY}`);
    return USAGE;
  }
  const { keys, wallets, intakes } = files;
  const logger = makeLogger(LOG_LEVEL);

  return serveInTerminal(
    {
      name: 'sandbox',
      stopWithinMs: settings.SHUTDOWN_SECONDS * 1_000,
      async start({ start, stop }) {
        const access = { ...DATABASE, maxConnections: CONNECTIONS, applicationName: 'promo-intake-sandbox' };
        const pool = await start(postgresComponent(access, logger));
        const step = makeStart(stop, logger);
        // The calls of wallets are in the tables of the intake.
        if (wallets.length > 0) await needStore(step, DATABASE, pool);
        const other = await step('Postgres', () => prepareSandboxTables(pool));
        if (other !== undefined)
          throw new Unable(
            `The schema ${SANDBOX_SCHEMA} belongs to another version (${JSON.stringify(other)}). Remove its state: drop schema ${SANDBOX_SCHEMA} cascade`,
          );
        const [clock, sessions, store] = [systemClock, makeSessionStore(pool), makeRoundStore(pool)];
        const callStore = makeCallStore(pool, logger);
        const calls = makeWalletCalls({
          store: callStore,
          clients: wallets.map(({ client }) => client),
          clock,
          newId: randomUUID,
          logger,
        });
        const writeAmounts = new Map(
          wallets.map(({ operatorId, writeAmount }) => [operatorId, writeAmount] as const),
        );
        const rounds = makeRounds({ store, calls, callStore, writeAmounts, clock, logger });
        if (wallets.length > 0) {
          await start(loopComponent({ name: 'wallet calls', run: calls.run }));
          await start(loopComponent({ name: 'rounds', run: rounds.run }));
        }
        if (intakes.length > 0)
          await start(
            loopComponent({
              name: 'publisher',
              run: (stop) => publishRounds({ store, intakes, clock, logger }, stop),
            }),
          );
        const operations = {
          ...makeOperations({ config, store: sessions, clock, newId }),
          ...makeRoundOperations({
            sessions,
            store,
            rounds,
            newId,
            wallNow: Date.now,
            stop,
            wallets: new Map(wallets.map(({ operatorId, actions }) => [operatorId, actions])),
          }),
        };
        const handler = makeSandboxHandler({
          keys,
          operations,
          store: sessions,
          clock,
          wallNow: Date.now,
          logger,
        });
        await start({
          name: 'server',
          async start() {
            const openapi = JSON.stringify(SANDBOX_OPENAPI);
            const server = await serveSandbox(port, { handler, openapi, logger }).catch(refusePort('--port'));
            logger.info({ port: server.port, keys: [...keys.keys()] }, 'sandbox started');
            return server;
          },
          stop: (server) => server.close(),
        });
      },
    },
    logger,
  );
}

/** Ids that are hard to guess, and fit into an op_id. */
function newId(): string {
  return randomBytes(9).toString('hex');
}
