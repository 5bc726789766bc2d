/** A publisher of completions that is killed after Kafka has its messages: see completions.test.ts. */
import { makeKafka } from '../../src/kafka/client/client';
import { makeTopicsProducer } from '../../src/kafka/producer';
import { makePool } from '../../src/postgres/pool';
import { makeLogger } from '../../src/telemetry/logger';
import { aCompletionPublisher } from '../support/completions';

const { DATABASE_URL = '', BROKERS = '', PATTERN = '' } = process.env;
const DEADLINE_MS = 60_000;

async function main(): Promise<void> {
  const logger = makeLogger('silent');
  const store = makePool({ databaseUrl: DATABASE_URL, maxConnections: 2, applicationName: 'killed' }, logger);
  const kafka = makeKafka({ brokers: BROKERS.split(','), clientId: 'killed' }, logger);
  const producer = await makeTopicsProducer(kafka, () => undefined);
  const stopping: typeof producer = {
    ...producer,
    async sendToTopics(items, encode) {
      await producer.sendToTopics(items, encode);
      console.log('sent');
      return new Promise((resolve) => setTimeout(resolve, DEADLINE_MS, new Map()));
    },
  };
  await aCompletionPublisher({ store, producer: stopping, pattern: PATTERN, holder: 'killed' }).step();
}

void main();
