/** The gauges of wallet calls. A worker reads them behind a scrape, which never waits for the store. */
import type { Logger } from 'pino';
import type { WalletBacklog } from '../../ledger/wallet-backlog';
import type { Clock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import type { Metrics } from '../../telemetry/metrics';

/** The least time between two reads. Scrapes are usually further apart. */
const READ_EVERY_MS = 10_000;

export interface WalletGaugesDeps {
  readonly read: () => Promise<WalletBacklog>;
  readonly metrics: Pick<Metrics, 'walletCallsOpen' | 'walletCallsUnresolved' | 'walletOldestDueSeconds'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
}

/** @returns what each scrape calls. A process that nobody scrapes reads nothing */
export function makeWalletGauges({ read, metrics, clock, logger }: WalletGaugesDeps): () => void {
  let readAt = Number.NEGATIVE_INFINITY;
  let isReading = false;
  let hasFailed = false;

  async function refresh(): Promise<void> {
    try {
      const { open, unresolved, oldestDueSeconds } = await read();
      metrics.walletCallsOpen.set(open);
      metrics.walletCallsUnresolved.set(unresolved);
      metrics.walletOldestDueSeconds.set(oldestDueSeconds);
      hasFailed = false;
    } catch (error) {
      // One line for a failure that lasts: the metrics of the store show its length.
      if (!hasFailed) logger.warn({ error: messageOf(error) }, 'cannot count the calls of wallets, retrying');
      hasFailed = true;
    } finally {
      isReading = false;
    }
  }

  return () => {
    if (isReading || clock.now() - readAt < READ_EVERY_MS) return;
    isReading = true;
    readAt = clock.now();
    void refresh();
  };
}
