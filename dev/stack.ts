/**
 * `make stack`: starts Kafka, Postgres and a schema registry. It prints `export NAME=value` for each address
 * and then `ready` on stdout. The servers stay up until SIGINT or SIGTERM.
 */
import {
  ADDRESS_VARIABLES,
  InterruptedError,
  missingRequirements,
  type ServerName,
  startServers,
} from './servers';

const log = (line: string): void => {
  process.stderr.write(`stack: ${line}\n`);
};

async function main(): Promise<void> {
  let signalled = (): void => {};
  const stopped = new Promise<void>((resolve) => {
    signalled = resolve;
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, signalled);
  }

  const need: ServerName[] = ['kafka', 'postgres', 'registry'];
  // Most programs work without the registry, which requires a newer Java than the other servers.
  const missing = await missingRequirements({ need: ['registry'], log });
  for (const { what, remedy } of missing) {
    log(`without a schema registry: ${what}. Remedy: ${remedy}`);
  }
  const servers = await startServers({
    need: missing.length === 0 ? need : need.filter((name) => name !== 'registry'),
    log,
    longLived: true,
    exitAfterSignal: false,
  });

  const addresses = [
    `export ${ADDRESS_VARIABLES.kafka}=${servers.kafkaBrokers}`,
    `export ${ADDRESS_VARIABLES.postgres}=${servers.databaseUrl}`,
    ...(servers.schemaRegistryUrl === undefined
      ? []
      : [`export ${ADDRESS_VARIABLES.registry}=${servers.schemaRegistryUrl}`]),
  ];
  process.stdout.write(`${addresses.join('\n')}\nready\n`);

  // Signal handlers and child processes alone do not keep this program alive.
  const keepAlive = setInterval(() => {}, 60_000);
  await stopped;
  await servers.stop();
  clearInterval(keepAlive);
  log('stopped');
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    log(error instanceof Error ? error.message : String(error));
    process.exit(error instanceof InterruptedError ? 130 : 1);
  },
);
