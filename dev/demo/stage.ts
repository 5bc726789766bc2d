/**
 * The stage of the demo: servers, topics, a database, and the settings by which the product's commands find
 * them.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log, Servers } from '../servers';
import type { Child } from '../servers/child';
import { projectRoot } from '../servers/download';
import { hostOf } from '../servers/guest';
import { CLI, inheritedFrom, productCommand } from '../servers/product';
import type { Supervisor } from '../servers/supervisor';
import { dropDatabase, makeDatabase, makeOwnTopics, removeLeftovers, removeOwnTopics } from './guest';
import { makeNames } from './names';
import { SENDERS, TOPIC_PREFIX } from './world';

/** The connection that sends by the webhook. */
export const HOOK = 'fjord-hook';
const REFERENCE = join('dev', 'demo', 'reference.yaml');
const COMMAND_DEADLINE_MS = 60_000;

export interface Stage {
  readonly kafkaBrokers: string;
  readonly databaseUrl: string;
  /** The name on this Kafka for a topic of the feed. */
  topicHere(topic: string): string;
  readonly referenceFile: string;
  /** A path below a directory that is removed in the end. */
  file(name: string): string;
  /** Runs a command of the product to its end, and returns its output. */
  run(...args: string[]): Promise<string>;
  /** The same for a command that ends with this exit code. */
  runTo(code: number, ...args: string[]): Promise<string>;
  /** Starts a command that keeps running. */
  start(...args: string[]): Child;
}

/** Makes everything that the demo needs. The supervisor removes all of it when it stops. */
export async function prepareStage(servers: Servers, supervisor: Supervisor, log: Log): Promise<Stage> {
  const { kafkaBrokers, databaseUrl: serverUrl, origin } = servers;
  const isKafkaGiven = origin.kafka === 'environment';
  const isPostgresGiven = origin.postgres === 'environment';
  const names = makeNames();
  const given = {
    brokers: isKafkaGiven ? kafkaBrokers : undefined,
    serverUrl: isPostgresGiven ? serverUrl : undefined,
  };
  await removeLeftovers(given, log);

  const topicPrefix = isKafkaGiven ? names.topicPrefix : TOPIC_PREFIX;
  const topicHere = (topic: string) => topic.replace(TOPIC_PREFIX, topicPrefix);
  const topics = [...new Set(Object.values(SENDERS).map(({ topic }) => topicHere(topic)))];
  if (isKafkaGiven) supervisor.onStop(() => removeOwnTopics(kafkaBrokers, names));
  if (isPostgresGiven) supervisor.onStop(() => dropDatabase(serverUrl, names.database));
  const [databaseUrl] = await supervisor.during(() =>
    Promise.all([
      isPostgresGiven ? makeDatabase(serverUrl, names.database) : serverUrl,
      makeOwnTopics(kafkaBrokers, topics),
    ]),
  );

  const directory = supervisor.directory.path;
  const settings = {
    KAFKA_BROKERS: kafkaBrokers,
    DATABASE_URL: databaseUrl,
    DEAD_LETTER_TOPIC: `${topicPrefix}dead-letter`,
    VERDICT_TOPIC: `${topicPrefix}verdict.{operator}`,
    COMPLETION_TOPIC: `${topicPrefix}completion.{operator}`,
    HTTP_PORT: '0',
    SHUTDOWN_SECONDS: '3',
    WEBHOOK_PORT: '0',
    WEBHOOK_SECRETS: JSON.stringify({ [HOOK]: `whsec_${randomBytes(32).toString('base64')}` }),
    ...(isKafkaGiven && { KAFKA_GROUP_ID: names.group }),
  };
  const start = (...args: string[]): Child => {
    const command = productCommand(CLI, args);
    return supervisor.spawn({
      ...command,
      name: `promo-intake ${args[0]}`,
      directory: projectRoot,
      environment: { ...inheritedFrom(process.env), ...command.environment, ...settings },
      logFile: join(directory, `${args[0]}.log`),
      stopSignal: 'SIGTERM',
    });
  };

  const runTo = async (code: number, ...args: string[]): Promise<string> => {
    const child = start(...args);
    await child.untilDone(COMMAND_DEADLINE_MS, code);
    return child.output();
  };

  return {
    kafkaBrokers,
    databaseUrl,
    topicHere,
    referenceFile: isKafkaGiven ? referenceWith(topicPrefix, directory) : REFERENCE,
    start,
    file: (name) => join(directory, name),
    run: (...args) => runTo(0, ...args),
    runTo,
  };
}

function referenceWith(topicPrefix: string, directory: string): string {
  const text = readFileSync(join(projectRoot, REFERENCE), 'utf8');
  const file = join(directory, 'reference.yaml');
  writeFileSync(file, text.replaceAll(`topic: ${TOPIC_PREFIX}`, `topic: ${topicPrefix}`));
  return file;
}

/** The origins of the two servers, in words. */
export function describeServers({ origin, kafkaBrokers, databaseUrl }: Servers): string {
  const words = { environment: 'as given', containers: 'in containers', processes: 'as child processes' };
  const [ofKafka, ofPostgres] = [
    words[origin.kafka ?? 'environment'],
    words[origin.postgres ?? 'environment'],
  ];
  const kafka = `Kafka ${kafkaBrokers}${ofKafka === ofPostgres ? '' : ` ${ofKafka}`}`;
  return `${kafka} and Postgres ${hostOf(databaseUrl)} ${ofPostgres}`;
}
