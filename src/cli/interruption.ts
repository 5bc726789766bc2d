/** Ends a command by a signal, at a place of its choice. */
import { FAILED } from './exit-codes';
import { endStuckOutput } from './output';

/** Aborted by the first Ctrl-C or SIGTERM. The second ends the process at once. */
export function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(FAILED);
      controller.abort();
      endStuckOutput();
    });
  }
  return controller.signal;
}
