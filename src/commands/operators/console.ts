/** `promo-intake console`: shows each operator its own events, until a signal stops it. */
import { DONE, FAILED } from '../../cli/exit-codes';
import { refusePort } from '../../cli/explain-error';
import { packageVersion } from '../../cli/package-version';
import { readConfig } from '../../config/config';
import { makeConsoleHandler } from '../../console/handler';
import { makePageReader, PAGES_AT_ONCE } from '../../console/reader';
import { serveConsole } from '../../console/server';
import { limitWrongTokens } from '../../console/tokens';
import { makeAddresses } from '../../lib/address';
import { systemClock } from '../../lib/clock';
import { makePool } from '../../postgres/pool';
import { makeLogger } from '../../telemetry/logger';
import { makeMetrics } from '../../telemetry/metrics';
import { BY_SIGNAL } from '../services/lifecycle';
import { makeLiveTokens } from '../services/live-secrets';
import { makeStart, needMigrations, serve } from '../services/service';
import { CONSOLE_SETTINGS } from '../shared/settings';

/** @returns the exit code */
export async function serveOperators(): Promise<number> {
  const config = readConfig(process.env, CONSOLE_SETTINGS);
  const { CONSOLE, DATABASE, HTTP_PORT, LIVENESS_HEARTBEAT, LOG_LEVEL } = config;
  const metrics = makeMetrics('console');
  const logger = makeLogger(LOG_LEVEL, 'stdout', () => metrics.logLinesDropped.inc());
  metrics.buildInfo.set({ version: await packageVersion(), node: process.versions.node }, 1);

  return serve({
    name: 'console',
    healthAt: { port: HTTP_PORT, file: LIVENESS_HEARTBEAT },
    metrics,
    logger,
    stopWithinMs: config.SHUTDOWN_SECONDS * 1000,
    codeOf: (reason) => (reason === BY_SIGNAL ? DONE : FAILED),
    async start({ start, stop }) {
      const applicationName = 'promo-intake-console';
      const pool = await start({
        name: 'postgres',
        start: () => makePool({ ...DATABASE, maxConnections: PAGES_AT_ONCE, applicationName }, logger),
        stop: (pool) => pool.end(),
      });
      await needMigrations(makeStart(stop, logger), DATABASE, 'promo');
      const tokens = makeLiveTokens(CONSOLE.tokens, systemClock.now, logger);
      const handle = makeConsoleHandler({
        ...{ tokens, logger, metrics, wallNow: Date.now, clock: systemClock },
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
