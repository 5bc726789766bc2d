/**
 * Faults of the Kafka client that cannot be caused from outside. Loaded into a worker before its program
 * (`node --require`), it waits for SIGUSR2. From then on no fetch ever ends, as in kafkajs#659 and #1593. It
 * also emits a warning.
 */
const { emitWarning } = process;
const Broker = require('kafkajs/src/broker');

process.once('SIGUSR2', () => {
  emitWarning('something else', 'OtherWarning');
  Broker.prototype.fetch = () => new Promise(() => undefined);
});
