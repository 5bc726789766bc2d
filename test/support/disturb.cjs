/**
 * Loaded into a worker before its program (NODE_OPTIONS=--require). On SIGUSR2 it does what DISTURB says: `block:MS` stops the event loop for
 * so long, `jump:MS` sets the clock of the day forward, or back where it is less than 0. What cannot be done to a process from outside.
 */
const [what, amount] = (process.env.DISTURB ?? '').split(':');
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
  if (what === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(amount));
  if (what === 'jump') offsetMs += Number(amount);
});
