/** Copies that read by the horizon, beside writers: each row once, in order, and none missing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { inRun } from '../../dev/long-run';
import { makeRandom, type Random } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import { HeldWriter, heldFor } from '../support/held-writer';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aWin,
  freshStore,
  type Json,
  rowsOf,
  type TestStore,
  type TextRow,
  withClient,
} from '../support/ledger';

const SEEDS = inRun({ usual: 2, long: 12, variable: 'INCREMENT_SEEDS' });
const WRITERS = 4;
const BATCHES = 12;
/** Writers go on for this time, for a long run. */
const LONG_MS = Number(process.env.INCREMENT_MINUTES ?? 0) * 60_000;
const ROUNDS = 6;
const DECIDED_WITHIN_MS = 60_000;
if (LONG_MS > 0) jest.setTimeout(LONG_MS + 300_000);

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

/** @param era its rounds are others than those of the era before */
function anyEvent(random: Random, sent: string[], name: string, era: number): Json {
  const event_id = sent.length > 0 && random.chance(0.15) ? random.pick(sent) : name;
  sent.push(event_id);
  const fields = { event_id, round_id: `r-${era}-${random.below(ROUNDS)}` };
  const make = random.pick([aBet, aBet, aWin, aRefund, aDeposit, aLogin]);
  const isAccount = make === aDeposit || make === aLogin;
  return random.chance(0.05)
    ? { ...make({ event_id }), occurred_at: 'now' }
    : make(isAccount ? { event_id } : fields);
}

/** A copy of one table. It begins each range behind the last number that it has. */
class Copy {
  private after = -1;
  readonly rows: TextRow[] = [];
  readonly numbers: number[] = [];

  constructor(
    readonly source: string,
    private readonly columns: string,
  ) {}

  async read(random: Random): Promise<void> {
    await withClient(store.url, async (client) => {
      let upTo: number | null = null;
      // A range to the horizon, to the horizon of an own statement, or to a number below it.
      if (random.chance(0.5)) {
        const [[horizon] = []] = await rowsOf(client, 'select promo.safe_up_to()');
        upTo = random.chance(0.5) ? Number(horizon) : random.between(this.after, Number(horizon));
      }
      const found = await rowsOf(
        client,
        `select change_no, ${this.columns} from promo.${this.source}($1, $2)`,
        [this.after, upTo],
      );
      for (const [number, ...row] of found) {
        this.numbers.push(Number(number));
        this.rows.push(row);
      }
      this.after = upTo ?? this.numbers.at(-1) ?? -1;
    });
  }
}

const ENTRY = 'entry_id, event_id, round_id, kind, amount_minor, reverses_entry_id, entered_at';
const VERDICT = 'verdict_id, event_id, verdict, reason, kind, amount_minor';
const DELIVERY = 'event_id, content_differs, first_verdict, source_topic, source_partition, source_offset';

/**
 * The ledger by another way than the views: the model goes through the verdicts in their order, and adds
 * the entries of docs/rules.md.
 */
async function expectedEntries(): Promise<[entry: number, change: number][]> {
  const verdicts = await store.rows(
    'select verdict_id, round_id, kind, verdict, counted from promo.verdicts order by verdict_id',
  );
  const rounds = new Map<string, { isRefunded: boolean; counted: number[] }>();
  const expected: [number, number][] = [];
  for (const [id, roundId, kind, verdict, counted] of verdicts) {
    const no = Number(id);
    const round = rounds.get(roundId ?? '') ?? { isRefunded: false, counted: [] };
    if (roundId != null) rounds.set(roundId, round);
    if (counted === 't') {
      expected.push([no * 2, no]);
      if (roundId != null) round.counted.push(no);
    }
    if (kind === 'refund' && verdict === 'accepted' && !round.isRefunded) {
      round.isRefunded = true;
      for (const entry of round.counted) expected.push([entry * 2 + 1, no]);
    }
  }
  return expected.sort(([a, changeOfA], [b, changeOfB]) => changeOfA - changeOfB || a - b);
}

test.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
  'random writers, held open and rolled back: copies equal the store (seed %i) [L4]',
  async (seed) => {
    const random = makeRandom(seed);
    const sent: string[] = [];
    let isDone = false;
    const began = performance.now();

    const writers = Array.from({ length: WRITERS }, async (_, partition) => {
      const own = makeRandom(seed * 100 + partition);
      const { partition: open } = store.writer({ wrap: heldFor(() => own.below(30)) });
      const part = open('acme', partition);
      let offset = 0;
      for (let batch = 0; batch < BATCHES || performance.now() - began < LONG_MS; batch++) {
        const events = Array.from({ length: own.between(1, 6) }, (_, event) =>
          anyEvent(own, sent, `${partition}-${batch}-${event}`, Math.floor(batch / BATCHES)),
        );
        // Batches of the same rounds and ids collide. A worker would wait, and retry.
        await until('the batch is decided', DECIDED_WITHIN_MS, async () => {
          const { undecided } = await part.attempt(offset, events);
          return undecided === null;
        });
        offset += events.length;
      }
    });
    const rollbacks = (async () => {
      while (!isDone) {
        const held = await HeldWriter.begin(store.url);
        await sleep(random.below(20));
        await held.end('rollback');
        await sleep(random.below(20));
      }
    })();
    const copies = [
      new Copy('changes', ENTRY),
      new Copy('new_verdicts', VERDICT),
      new Copy('new_deliveries', DELIVERY),
    ];
    const copying = copies.map(async (copy, index) => {
      const own = makeRandom(seed * 100 + 50 + index);
      while (!isDone) {
        await copy.read(own);
        await sleep(own.below(10));
      }
    });
    try {
      await Promise.all(writers);
    } finally {
      isDone = true;
      await Promise.all([rollbacks, ...copying]);
    }
    const never: Random = { ...random, chance: () => false };
    for (const copy of copies) await copy.read(never);
    if (LONG_MS > 0)
      process.stdout.write(
        `${copies.map(({ source, rows }) => `${source}: ${rows.length} rows`).join(', ')}\n`,
      );

    const [changes, verdicts, deliveries] = copies;
    for (const copy of copies) expect(copy.numbers).toEqual(copy.numbers.toSorted((a, b) => a - b));
    expect(changes?.rows.toSorted()).toEqual(
      (await store.rows(`select ${ENTRY} from promo.ledger`)).toSorted(),
    );
    expect(changes?.rows.map(([entry], index) => [Number(entry), changes.numbers[index]])).toEqual(
      await expectedEntries(),
    );
    expect(verdicts?.rows).toEqual(
      await store.rows(`select ${VERDICT} from promo.verdicts order by verdict_id`),
    );
    expect(deliveries?.rows.toSorted()).toEqual(
      (await store.rows(`select ${DELIVERY} from promo.deliveries`)).toSorted(),
    );
  },
);

test('writers without a pause, and a copy without a pause: nothing is missing and nothing comes twice [L4]', async () => {
  const copy = new Copy('new_verdicts', VERDICT);
  let isDone = false;
  const writers = Array.from({ length: 6 }, async (_, partition) => {
    const part = store.writer({ maxConnections: 1 }).partition('acme', partition);
    for (let batch = 0; batch < 80; batch++) await part.read(aLogin({ event_id: `${partition}-${batch}` }));
  });
  const copying = (async () => {
    const random = makeRandom(1);
    while (!isDone) await copy.read(random);
    await copy.read({ ...random, chance: () => false });
  })();
  try {
    await Promise.all(writers);
  } finally {
    isDone = true;
    await copying;
  }

  expect(copy.rows).toEqual(await store.rows(`select ${VERDICT} from promo.verdicts order by verdict_id`));
  expect(copy.rows).toHaveLength(480);
});
