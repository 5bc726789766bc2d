/**
 * Loaded into a worker before its program (NODE_OPTIONS=--require), for faults that cannot be caused from
 * outside of a process. SIGUSR2 triggers the fault that DISTURB names:
 *
 * - `block:MS` stops the event loop for this time, and logs it.
 * - `jump:MS` moves the wall clock forward, or back by a negative number.
 * - `wrong:MS` acts from the start: the wall clock is ahead by this time, or behind by a negative number.
 * - `kept:MS` acts from the start: Kafka counts the worker as a member of its group for this time after its
 *   death.
 */
const { writeSync } = require('node:fs');

const [what, amount] = (process.env.DISTURB ?? '').split(':');
const STDOUT = 1;
const RealDate = Date;
let offsetMs = what === 'wrong' ? Number(amount) : 0;

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
