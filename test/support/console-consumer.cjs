/** Replaces Kafka's kafka-console-consumer.sh, with its options: no test stack has that script. */
const { parseArgs } = require('node:util');
const { Kafka, logLevel } = require('kafkajs');

const { values } = parseArgs({
  options: {
    'bootstrap-server': { type: 'string' },
    topic: { type: 'string' },
    group: { type: 'string' },
    'from-beginning': { type: 'boolean' },
    'max-messages': { type: 'string' },
  },
});
const kafka = new Kafka({ brokers: values['bootstrap-server'].split(','), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: values.group });

async function run() {
  let left = Number(values['max-messages']);
  await consumer.connect();
  await consumer.subscribe({ topics: [values.topic], fromBeginning: values['from-beginning'] });
  await new Promise((ended) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        if (left > 0) console.log(String(message.value));
        left--;
        if (left === 0) ended();
      },
    });
  });
  await consumer.disconnect();
}

run();
