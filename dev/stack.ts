/**
 * `make stack`: starts Kafka, Postgres and a schema registry. It prints `export NAME=value` for each address
 * and then `ready` on stdout. The servers stay up until SIGINT or SIGTERM.
 */
import { ADDRESS_VARIABLES, InterruptedError, missingRequirements, startServers } from './servers';
import { EXIT_CODES, endingSignal, runProgram } from './servers/program';

const log = (line: string): void => {
  process.stderr.write(`stack: ${line}\n`);
};

async function main(): Promise<number> {
  const ended = endingSignal();
  // Most programs work without the registry, which requires a newer Java than the other servers.
  const missing = await missingRequirements({ need: ['registry'], log });
  for (const { what, remedy } of missing) {
    log(`without a schema registry: ${what}. Remedy: ${remedy}`);
  }
  const servers = await startServers({
    need: ['kafka', 'postgres', ...(missing.length === 0 ? (['registry'] as const) : [])],
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

  await ended;
  await servers.stop();
  log('stopped');
  return 0;
}

runProgram('stack', main, (error) => (error instanceof InterruptedError ? EXIT_CODES.SIGINT : 1));
