/** Faults that servers must survive, as processes and as containers. */
import type { Environment, Origin } from '../../dev/servers';
import { freshTopic, ownServers } from '../support/servers';
import { produceAndConsume, query } from './programs';

/** Kills, suspends and restarts its own servers. They must have the same address and data each time. */
export async function expectToSurviveFaults(environment: Environment, origin: Origin): Promise<void> {
  const servers = await ownServers({ need: ['kafka', 'postgres'], environment });
  try {
    const { kafkaBrokers, databaseUrl, kafka, postgres } = servers;
    expect(servers.origin).toEqual({ kafka: origin, postgres: origin });
    expect(servers.registry).toBeUndefined();
    const topic = await freshTopic('faults', { partitions: 1, brokers: kafkaBrokers.split(',') });
    expect(await produceAndConsume(kafkaBrokers, topic, 'before')).toBe('before');
    await query(databaseUrl, 'CREATE TABLE kept AS SELECT 7 AS value');

    await Promise.all([kafka?.kill(), postgres?.kill()]);
    await expect(query(databaseUrl, 'SELECT 1')).rejects.toThrow(/ECONNREFUSED/);
    await Promise.all([kafka?.start(), postgres?.start()]);
    expect(await query(databaseUrl, 'SELECT value FROM kept')).toBe(7);
    expect(await produceAndConsume(kafkaBrokers, topic, 'after')).toBe('after');

    await postgres?.suspend();
    await expect(query(databaseUrl, 'SELECT 1', 500)).rejects.toThrow(/timeout/);
    await postgres?.resume();
    expect(await query(databaseUrl, 'SELECT 1')).toBe(1);

    await query(databaseUrl, "ALTER SYSTEM SET shared_buffers = '64MB'");
    await postgres?.stop();
    await postgres?.start();
    expect(await query(databaseUrl, 'SHOW shared_buffers')).toBe('64MB');
    expect(await query(databaseUrl, 'SELECT value FROM kept')).toBe(7);
    await kafka?.suspend();
  } finally {
    await servers.stop();
  }
}
