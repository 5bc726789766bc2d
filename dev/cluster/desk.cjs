// Queries from inside the cluster. `node -e` runs this file in the image of the product, whose packages it uses.
// Answers are lines of JSON.
const [what, argument, database] = process.argv.slice(1);

/** Rows of the last statement of the argument. The database is `promo` unless another one is named. */
async function sql() {
  const { Client } = require('pg');
  const url = new URL(process.env.DATABASE_URL);
  if (database !== undefined) url.pathname = database;
  const client = new Client({ connectionString: url.href });
  await client.connect();
  const answers = [await client.query(argument)].flat();
  await client.end();
  return answers.at(-1).rows;
}

/** Makes the topic of the argument `name:partitions`. */
async function topic() {
  const { Kafka, logLevel } = require('kafkajs');
  const [name, partitions] = argument.split(':');
  const brokers = [process.env.KAFKA_BROKERS];
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING, retry: { retries: 10 } }).admin();
  await admin.connect();
  await admin.createTopics({
    topics: [{ topic: name, numPartitions: Number(partitions), replicationFactor: 1 }],
  });
  await admin.disconnect();
  return name;
}

/** The text at an address. */
async function get() {
  const answer = await fetch(argument, { signal: AbortSignal.timeout(5_000) });
  return { status: answer.status, text: await answer.text() };
}

({ sql, topic, get })[what]().then(
  (answer) => console.log(JSON.stringify(answer)),
  (error) => {
    console.error(error.message);
    process.exitCode = 1;
  },
);
