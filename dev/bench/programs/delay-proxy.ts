/**
 * A delaying proxy in front of Postgres, as a program of its own. It prints its port, and runs until it is
 * stopped.
 */
import { makeThreadAlarm } from '../alarm-thread';
import { startDelayProxy } from '../delay-line';
import { numberSetting, setting } from './settings';

startDelayProxy(
  { host: setting('TARGET_HOST'), port: numberSetting('TARGET_PORT'), delayMs: numberSetting('DELAY_MS') },
  makeThreadAlarm,
).then(
  ({ port }) => process.stdout.write(`port ${port}\n`),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
