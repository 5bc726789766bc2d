/**
 * Faults of the Kafka client that cannot be caused from outside. Loaded into a worker before its program
 * (`node --require`), it waits for SIGUSR2. From then on no fetch ever ends, as in kafkajs#659 and #1593. It
 * also emits the warning of Node 24 about kafkajs' timers, and another warning.
 */
const { emitWarning } = process;
const Broker = require('kafkajs/src/broker');

process.once('SIGUSR2', () => {
  emitWarning('-5 is a negative number.', 'TimeoutNegativeWarning');
  emitWarning('something else', 'OtherWarning');
  Broker.prototype.fetch = () => new Promise(() => undefined);
});
