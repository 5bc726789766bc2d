/**
 * Faults of the Kafka client that nothing outside of it can bring about. Loaded into a worker before its program (`node --require`), it waits
 * for SIGUSR2: from then on no fetch ends any more, in no way, as with kafkajs#659 and #1593. And it warns as Node 24 does of
 * kafkajs' timers, and of something else.
 */
const { emitWarning } = process;
const Broker = require('kafkajs/src/broker');

process.once('SIGUSR2', () => {
  emitWarning('-5 is a negative number.', 'TimeoutNegativeWarning');
  emitWarning('something else', 'OtherWarning');
  Broker.prototype.fetch = () => new Promise(() => undefined);
});
