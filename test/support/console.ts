/** A store of two operators with equal ids, and the console over it, as a process of its own. */
import { randomBytes } from 'node:crypto';
import { grantRoles } from '../../src/ledger/roles';
import { parsePromotions } from '../../src/promotion-file/promotion-file';
import { applyPromotions } from '../../src/promotion-store/documents';
import { aBet, aDeposit, aRefund, aSettled, aWin, freshStore, type Json, type TestStore } from './ledger';
import { foldPromotions } from './promotion-progress';
import { dropRoles, makeRole } from './roles';
import { RunningCommand, type Settings } from './worker';

/** A text of Bravo in each place where a sender may write one. No page of Acme may show it. */
export const MARK_OF_BRAVO = 'zzbravozz';
export const MARK_OF_ACME = 'zzacmezz';

/** Ids of a hostile sender: markup, quotation marks, characters that hide or reorder, SQL. */
export const HOSTILE_IDS = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' or '1'='1' --",
  '</code></pre><h1>owned</h1>',
  '\u202egnp.exe\u0007\u001b[31m',
  "$1 :feed $$ \\'; select 1; --",
  'a b&c=d#e?f%00/..',
];

export interface ConsoleWorld {
  readonly store: TestStore;
  /** The address of the store for the role of a reader. */
  readonly readerUrl: string;
  close(): Promise<void>;
}

export async function openConsoleWorld(): Promise<ConsoleWorld> {
  const store = await freshStore();
  await fill(store);
  await addPromotion(store);
  const reader = await makeRole(store.url, 'reader');
  await grantRoles(store.url, [{ role: 'reader', name: reader.name }]);
  return {
    store,
    readerUrl: reader.url,
    async close() {
      await dropRoles(store.url, [reader.name]);
      await store.close();
    },
  };
}

/** Both operators use the same event ids and round ids, with other amounts. */
async function fill(store: TestStore): Promise<void> {
  const now = () => new Date(Date.now() - 1_500).toISOString();
  const of = (mark: string, amount: string) => {
    const own = { occurred_at: now(), player_ref: `player-${mark}`, amount };
    const bet = (changes: Json) => aBet({ ...own, ...changes });
    return [
      bet({ event_id: 'e-1', round_id: 'r-1' }),
      aWin({ ...own, event_id: 'e-2', round_id: 'r-1' }),
      aSettled({ ...own, event_id: 'e-3', round_id: 'r-1', amount: '99.99' }),
      bet({ event_id: 'e-4', round_id: 'r-2' }),
      aRefund({ ...own, event_id: 'e-5', round_id: 'r-2' }),
      bet({ event_id: 'e-6', round_id: 'r-3', amount: '1.234' }),
      bet({ event_id: 'e-7', round_id: 'r-3', currency: 'XXX' }),
      aDeposit({ ...own, event_id: `e-${mark}`, amount }),
      bet({ event_id: `bet-${mark}`, round_id: `round-${mark}` }),
      aSettled({ ...own, event_id: `settled-${mark}`, round_id: `round-${mark}`, amount: '1.00' }),
      bet({ event_id: `brand-${mark}`, round_id: 'r-4', brand: `brand-${mark}` }),
      ...HOSTILE_IDS.map((id) => bet({ event_id: id, round_id: id, game: { id: `game-${mark}` } })),
    ];
  };
  const again = (mark: string) => [
    aDeposit({ event_id: `e-${mark}`, amount: '77.00' }),
    aBet({ event_id: 'e-1', round_id: 'r-1', amount: '77.00' }),
  ];
  const [acme, bravo, apart] = ['acme', 'bravo', 'acme.apart'].map((topic) => store.partition(topic, 3));
  await acme?.read(...of(MARK_OF_ACME, '10.01'));
  await acme?.read(...again(MARK_OF_ACME));
  await bravo?.read(...of(MARK_OF_BRAVO, '2000.02'));
  await bravo?.read(...again(MARK_OF_BRAVO));
  // A feed of its own: the same id is another event.
  await apart?.read(aBet({ event_id: 'e-1', round_id: 'r-1', amount: '3.33' }));
}

/** The pseudonym of a player of each operator. The ids of promotions are equal, too. */
export const PSEUDONYM = '0123456789abcdef0123456789abcdef';
export const PROMOTION = 'spins';

async function addPromotion(store: TestStore): Promise<void> {
  const of = (operator: string, mark: string) =>
    `{ id: ${PROMOTION}, operator: ${operator}, type: turnover_target, counts: bet, games: [game-${mark}], target: { EUR: "10.00" } }`;
  const board = '{ id: race, operator: acme, type: leaderboard, points: [{ counts: bet, points: 1 }] }';
  const unused = '{ id: unused, operator: acme, type: withdrawal_target, target: { EUR: "1.00" } }';
  const text = `promotions: [${of('acme', MARK_OF_ACME)}, ${of('bravo', MARK_OF_BRAVO)}, ${board}, ${unused}]`;
  const parsed = parsePromotions(text, 'p');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  const { document } = parsed;
  await applyPromotions(
    store.pool,
    document,
    { by: 'test', reason: null, takeover: 'next_window' },
    () => true,
  );
  await foldPromotions(store.pool);
  await store.rows(`insert into promo_store.pseudonym_keys (key_id, state) values ('k', 'shown')`);
  await store.rows(
    `insert into promo_store.pseudonyms (key_no, operator_id, player_ref, player_id)
     select distinct (select key_no from promo_store.pseudonym_keys), operator_id, player_ref, $1 from promo.promotion_progress`,
    [PSEUDONYM],
  );
}

export const aToken = (): string => randomBytes(32).toString('base64');

export interface RunningConsole {
  readonly command: RunningCommand;
  readonly origin: string;
}

/** Starts `console` on free ports, and waits until it serves requests. */
export async function startConsole(
  tokens: Readonly<Record<string, string | readonly string[]>> | undefined,
  settings: Settings,
): Promise<RunningConsole> {
  const command = new RunningCommand(['console'], {
    HTTP_PORT: '0',
    CONSOLE_PORT: '0',
    ...(tokens && { CONSOLE_TOKENS: JSON.stringify(tokens) }),
    ...settings,
  });
  const { port } = await command.waitForLog('console started');
  return { command, origin: `http://127.0.0.1:${port}` };
}
