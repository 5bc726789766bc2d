#!/usr/bin/env node
/**
 * The commands. Exit codes: 0 done, 1 failed or not clean, 2 wrong usage or configuration.
 */
import { parseArgs } from 'node:util';
import { applyReferenceFile } from './commands/reference';
import { ConfigError } from './config';

const HELP = `promo-intake: takes in promotion events and decides a verdict for each, once

  promo-intake migrate                     bring the database to this version
  promo-intake reference apply FILE        put operators, connections, brands and rules into force
      --dry-run                            only print what would change
      --allow-removal                      allow operators and connections to be removed
  promo-intake worker                      read the topics and decide, until SIGTERM
      --drain                              end once the group has decided all that is in the topics now
  promo-intake publish FILE                send events to Kafka, one JSON object a line; - reads standard input
      --topic TOPIC                        the topic (required)
      --connection ID                      name the connection, for a topic that several share
  promo-intake check FILE                  tell the verdict of each event of a file as far as no stored state is needed
      --reference FILE --connection ID     with the brand and game rules of a connection

Settings come from the environment: KAFKA_BROKERS, DATABASE_URL and others, see docs/configuration.md.
A first run:
  export KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo
  promo-intake migrate
  promo-intake reference apply schemas/examples/reference.yaml
  promo-intake worker
`;

const USAGE = 2;

async function main(argv: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      drain: { type: 'boolean' },
      'dry-run': { type: 'boolean' },
      'allow-removal': { type: 'boolean' },
      topic: { type: 'string' },
      connection: { type: 'string' },
      reference: { type: 'string' },
    },
  });
  const [command, ...rest] = positionals;
  if (values.help || command === undefined) {
    console.log(HELP);
    return values.help ? 0 : USAGE;
  }
  switch (command) {
    case 'migrate':
      return (await import('./commands/migrate.js')).migrate();
    case 'worker':
      return (await import('./commands/worker.js')).worker({ drain: values.drain ?? false });
    case 'reference': {
      const [verb, file] = rest;
      if (verb !== 'apply' || file === undefined) return usage('reference apply needs a FILE');
      return applyReferenceFile({
        file,
        dryRun: values['dry-run'] ?? false,
        allowRemoval: values['allow-removal'] ?? false,
      });
    }
    default:
      return usage(`there is no command ${command}`);
  }
}

function usage(problem: string): number {
  console.error(`${problem}\n\n${HELP}`);
  return USAGE;
}

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    if (error instanceof ConfigError) console.error(error.message);
    else console.error(error instanceof Error ? (error.stack ?? error.message) : error);
    process.exitCode = error instanceof ConfigError ? USAGE : 1;
  },
);
