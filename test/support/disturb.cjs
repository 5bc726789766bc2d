/**
 * Loaded into a worker before its program (NODE_OPTIONS=--require). On SIGUSR2 it does what DISTURB says: `block:MS` stops the event loop for
 * so long, and logs that it does; `jump:MS` sets the clock of the day forward, or back where it is less than 0. What cannot be done to a
 * process from outside.
 *
 * `kept:MS`, from its start: Kafka counts the worker as a member of its group for so long after it has died.
 */
const { writeSync } = require('node:fs');

const [what, amount] = (process.env.DISTURB ?? '').split(':');
const STDOUT = 1;
const RealDate = Date;
let offsetMs = 0;

globalThis.Date = class extends RealDate {
  constructor(...given) {
    if (given.length === 0) super(RealDate.now() + offsetMs);
    else super(...given);
  }
  static now() {
    return RealDate.now() + offsetMs;
  }
};

process.on('SIGUSR2', () => {
  if (what === 'block') {
    writeSync(STDOUT, '{"level":"info","msg":"the event loop is blocked"}\n');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(amount));
  }
  if (what === 'jump') offsetMs += Number(amount);
});

if (what === 'kept') {
  const { Kafka } = require('kafkajs');
  const { consumer } = Kafka.prototype;
  Kafka.prototype.consumer = function (options) {
    return consumer.call(this, { ...options, sessionTimeout: Number(amount) });
  };
}
