/** `promo-intake console`: shows each operator its own events, until a signal stops it. */
import { refusePort } from '../../cli/explain-error';
import { readConfig } from '../../config/config';
import { makeConsoleHandler } from '../../console/handler';
import { makePageReader, PAGES_AT_ONCE } from '../../console/reader';
import { serveConsole } from '../../console/server';
import { limitWrongTokens } from '../../console/tokens';
import { makeAddresses } from '../../lib/address';
import { systemClock } from '../../lib/clock';
import { postgresComponent } from '../services/components';
import { makeInstruments } from '../services/instruments';
import { makeLiveTokens } from '../services/live-secrets';
import { makeStart, needMigrations, serve } from '../services/service';
import { CONSOLE_SETTINGS } from '../shared/settings';

/** @returns the exit code */
export async function serveOperators(): Promise<number> {
  const config = readConfig(process.env, CONSOLE_SETTINGS);
  const { CONSOLE, DATABASE } = config;
  const { metrics, logger } = await makeInstruments('console', config.LOG_LEVEL);

  return serve({
    name: 'console',
    settings: config,
    metrics,
    logger,
    async start({ start, stop }) {
      const access = {
        ...DATABASE,
        maxConnections: PAGES_AT_ONCE,
        applicationName: 'promo-intake-console',
      };
      const pool = await start(postgresComponent(access, logger));
      await needMigrations(makeStart(stop, logger), DATABASE, 'promo');
      const tokens = makeLiveTokens(CONSOLE.tokens, systemClock.now, logger);
      const handle = makeConsoleHandler({
        tokens,
        logger,
        metrics,
        wallNow: Date.now,
        clock: systemClock,
        wrongTokens: limitWrongTokens(systemClock.now),
        openPage: makePageReader(pool, systemClock.now, metrics),
      });
      const addresses = makeAddresses(CONSOLE.trustedProxies);
      await start({
        name: 'server',
        async start() {
          const server = await serveConsole(CONSOLE.port, { handle, addresses, logger }).catch(
            refusePort('CONSOLE_PORT'),
          );
          logger.info({ port: server.port, operators: [...tokens().keys()] }, 'console started');
          return server;
        },
        stop: (server, withinMs) => server.close(withinMs),
      });
    },
  });
}
