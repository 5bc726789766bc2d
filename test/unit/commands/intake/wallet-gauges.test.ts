/** The gauges of wallet calls are read behind scrapes. */
import pino from 'pino';
import { makeWalletGauges } from '../../../../src/commands/intake/wallet-gauges';
import type { WalletBacklog } from '../../../../src/ledger/wallet-backlog';
import { makeMetrics } from '../../../../src/telemetry/metrics';

const BACKLOG: WalletBacklog = { open: 3, unresolved: 2, oldestDueSeconds: 7 };

function world(read: () => Promise<WalletBacklog>) {
  const lines: string[] = [];
  const metrics = makeMetrics('worker');
  const time = { now: 0 };
  const scrape = makeWalletGauges({
    read,
    metrics,
    clock: { now: () => time.now },
    logger: pino({}, { write: (line: string) => lines.push(line) }),
  });
  const served = () => metrics.registry.getSingleMetricAsString('promo_intake_wallet_calls_unresolved');
  return { lines, time, scrape, served };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

test('a scrape has the numbers that the scrape before it asked for', async () => {
  const read = jest.fn(async () => BACKLOG);
  const { time, scrape, served } = world(read);
  scrape();
  await settle();
  expect(await served()).toContain('promo_intake_wallet_calls_unresolved 2');
  scrape();
  expect(read).toHaveBeenCalledTimes(1);
  time.now += 10_000;
  scrape();
  expect(read).toHaveBeenCalledTimes(2);
});

test('a store that does not answer is asked once, and holds up no scrape', async () => {
  const read = jest.fn(() => new Promise<WalletBacklog>(() => undefined));
  const { time, scrape } = world(read);
  for (; time.now < 60_000; time.now += 15_000) scrape();
  expect(read).toHaveBeenCalledTimes(1);
});

test('a failure that lasts is logged once, and the numbers stay', async () => {
  const reads = [BACKLOG, null, null, BACKLOG, null];
  const { lines, time, scrape, served } = world(async () => {
    const next = reads.shift();
    if (next == null) throw new Error('the store is away');
    return next;
  });
  for (const logged of [0, 1, 1, 1, 2]) {
    scrape();
    await settle();
    time.now += 15_000;
    expect(lines).toHaveLength(logged);
    expect(await served()).toContain(' 2');
  }
});
