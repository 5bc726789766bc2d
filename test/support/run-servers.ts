/**
 * The servers of a whole Jest run. They live in Jest's main process. Tests run in other processes, and get
 * the addresses by the environment.
 */
import { ADDRESS_VARIABLES, type ServerName, type Servers, startServers } from '../../dev/servers';

const running: Servers[] = [];

/**
 * May be called for several projects of one run: a running server already has its address in the environment.
 */
export async function startForRun(need: readonly ServerName[]): Promise<void> {
  const servers = await startServers({
    need,
    // A test that kills a Postgres starts its own, which has fsync, and so does the benchmark.
    withoutFsync: true,
    log: (line) => {
      process.stderr.write(`servers: ${line}\n`);
    },
  });
  running.push(servers);
  const addresses: Record<ServerName, () => string | undefined> = {
    kafka: () => servers.kafkaBrokers,
    postgres: () => servers.databaseUrl,
    registry: () => servers.schemaRegistryUrl,
  };
  for (const name of need) {
    const address = addresses[name]();
    // The workers that run the tests inherit it.
    process.env[ADDRESS_VARIABLES[name]] = address;
    if (servers[name] !== undefined) {
      owned.add(ADDRESS_VARIABLES[name]);
    }
  }
}

/** Variables set by this module. They are unset when the servers are gone (watch mode starts them again). */
const owned = new Set<string>();

export async function stopForRun(): Promise<void> {
  const ending = running.splice(0);
  for (const variable of owned) {
    delete process.env[variable];
  }
  owned.clear();
  await Promise.all(ending.map((servers) => servers.stop()));
}
