/** An alarm for delay lines, by the timers of Node. It is exact enough to check that nothing comes early. */
import type { MakeAlarm } from '../../dev/bench/delay-line';

export const makeTimerAlarm: MakeAlarm = (ring) => {
  let timer: NodeJS.Timeout | undefined;
  return {
    now: () => performance.now(),
    set(at) {
      clearTimeout(timer);
      timer = setTimeout(ring, Math.max(0, at - performance.now()));
    },
    close: () => clearTimeout(timer),
  };
};
