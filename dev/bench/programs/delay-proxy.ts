/** A delaying proxy in front of Postgres, as a program of its own: prints its port, and runs until it is stopped. */
import { makeThreadAlarm } from '../alarm-thread';
import { startDelayProxy } from '../delay-line';
import { told, toldNumber } from './settings';

startDelayProxy(
  { host: told('TARGET_HOST'), port: toldNumber('TARGET_PORT'), delayMs: toldNumber('DELAY_MS') },
  makeThreadAlarm,
).then(
  ({ port }) => process.stdout.write(`port ${port}\n`),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
