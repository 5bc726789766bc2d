/**
 * The wallet of an operator, as an example: each call is one transaction of Postgres, and each op_id has one
 * effect and one answer. Read it without the lines of `bugs`: those break it on demand, for tests.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { walletFailure } from '../../src/contract/envelope';
import type { ErrorCode } from '../../src/contract/error-codes';
import type { Bugs } from './bugs';
import type { WalletCall } from './call';

/** The body of an answer. */
export type Body = Readonly<Record<string, unknown>>;

interface PlayerRow {
  readonly token: string;
  readonly token_is_valid: boolean;
  readonly is_blocked: boolean;
  readonly is_limited: boolean;
  readonly currency: string;
  readonly exponent: number;
  readonly balance: string;
}

interface OperationRow {
  readonly content: string;
  readonly stake: string;
  readonly win: string;
  readonly state: 'applied' | 'refused' | 'rolled_back';
  readonly answer: Body;
}

/** Long enough for calls at once to meet in a gap that a bug leaves open. */
const GAP_MS = 60;

/** The wallet within one transaction, which the caller commits. */
export class ExampleWallet {
  /** @param isConnected whether the caller still waits for the answer; only a bug asks */
  constructor(
    private readonly db: ClientBase,
    private readonly bugs: Bugs,
    private readonly isConnected: () => boolean,
  ) {}

  async answer(call: WalletCall): Promise<Body> {
    switch (call.action) {
      case 'balance':
        return this.balance(call);
      case 'authenticate':
        return this.authenticate(call);
      case 'reconcile':
        return this.reconcile(call);
      default:
        return this.once(call);
    }
  }

  /** Gives each op_id one effect and one answer, also where two calls with it come at once. */
  private async once(call: WalletCall): Promise<Body> {
    await this.lock(call);
    const earlier = await this.operation(call.opId);
    if (earlier !== undefined) {
      if (earlier.content !== call.content && !this.bugs.has('content_not_compared'))
        return failure('ERROR_CODE_IDEMPOTENCY_CONFLICT');
      if (earlier.state !== 'rolled_back') return earlier.answer;
      const isTaken = this.bugs.has(
        call.action === 'credit' ? 'rolled_back_win_paid_again' : 'rolled_back_taken_again',
      );
      if (!isTaken) return failure('ERROR_CODE_ALREADY_ROLLED_BACK');
    }
    if (await this.isRolledBackEarly(call.opId)) return failure('ERROR_CODE_ALREADY_ROLLED_BACK');
    if (this.bugs.has('op_id_not_locked')) await sleep(GAP_MS);
    const refusal = await this.apply(call);
    const body = refusal === undefined ? await this.balance(call) : failure(refusal);
    await this.store(call, refusal === undefined ? 'applied' : 'refused', body);
    return body;
  }

  /**
   * One call at a time for each op_id, also for one that has no row yet. A rollback and its debit exclude
   * each other, too. Locks are taken in order, so that no two calls wait for each other.
   */
  private async lock({ action, opId, original }: WalletCall): Promise<void> {
    if (this.bugs.has('op_id_not_locked')) return;
    if (this.bugs.has('rollbacks_in_parallel') && action === 'rollback') return;
    const ids = action === 'rollback' ? [opId, original].sort() : [opId];
    for (const id of ids) await this.db.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [id]);
  }

  /** @returns the code where the call is refused. Nothing has moved then */
  private async apply(call: WalletCall): Promise<ErrorCode | undefined> {
    const player = await this.player(call);
    if (player === undefined) return 'ERROR_CODE_PLAYER_NOT_FOUND';
    switch (call.action) {
      case 'debit':
      case 'debit_and_credit':
        return (await this.refusalOfBet(call, player)) ?? this.move(call, player, call.win - call.stake);
      case 'credit':
        return (await this.refusalOfWin(call, player)) ?? this.move(call, player, call.win);
      case 'rollback':
        return this.rollBack(call, player);
      case 'close_round':
        await this.db.query(
          'insert into example_wallet.closed_rounds (player, round) values ($1, $2) on conflict do nothing',
          [call.player, call.round],
        );
        return undefined;
      default:
        return 'ERROR_CODE_UNSUPPORTED_ACTION';
    }
  }

  /** The player's row, locked until the end of the transaction: its balance is the present one. */
  private async player({ player, action }: WalletCall): Promise<PlayerRow | undefined> {
    const isUnlocked = action === 'rollback' && this.bugs.has('rollbacks_in_parallel');
    const lock = isUnlocked || this.bugs.has('balance_checked_before_lock') ? '' : 'for update';
    const { rows } = await this.db.query<PlayerRow>(
      `select * from example_wallet.players where id = $1 ${lock}`,
      [player],
    );
    if (this.bugs.has('balance_checked_before_lock')) await sleep(GAP_MS);
    return rows[0];
  }

  private async refusalOfBet(call: WalletCall, player: PlayerRow): Promise<ErrorCode | undefined> {
    const { bugs } = this;
    if (bugs.has('slow') && call.action === 'debit') await sleep(1_200);
    const isExpired = !player.token_is_valid || player.token !== call.token;
    if (isExpired && call.token !== '' && !bugs.has('expired_bets_taken'))
      return 'ERROR_CODE_SESSION_EXPIRED';
    if (player.is_blocked && !bugs.has('blocked_bets_taken')) return 'ERROR_CODE_PLAYER_BLOCKED';
    if (player.is_limited) return 'ERROR_CODE_LIMIT_EXCEEDED';
    if ((await this.isClosed(call)) && !bugs.has('closed_round_open')) return 'ERROR_CODE_BUSINESS_REJECTED';
    if (this.isOtherCurrency(call, player)) return 'ERROR_CODE_CURRENCY_MISMATCH';
    if (BigInt(player.balance) >= call.stake || bugs.has('poor_bets_taken')) return undefined;
    if (bugs.has('atomic_in_two')) await this.move(call, player, call.win);
    return 'ERROR_CODE_INSUFFICIENT_FUNDS';
  }

  /** Neither a block nor a limit nor an expired session refuses a win. */
  private async refusalOfWin(call: WalletCall, player: PlayerRow): Promise<ErrorCode | undefined> {
    if (player.is_blocked && this.bugs.has('blocked_wins_refused')) return 'ERROR_CODE_PLAYER_BLOCKED';
    if (player.is_limited && this.bugs.has('limited_wins_refused')) return 'ERROR_CODE_LIMIT_EXCEEDED';
    if (this.isOtherCurrency(call, player)) return 'ERROR_CODE_CURRENCY_MISMATCH';
    if (call.original === '' || this.bugs.has('win_of_unknown_bet_paid')) return undefined;
    return (await this.operation(this.originalId(call))) === undefined
      ? 'ERROR_CODE_UNKNOWN_ORIGINAL'
      : undefined;
  }

  private isOtherCurrency({ currency, exponent }: WalletCall, player: PlayerRow): boolean {
    const isOtherCode = currency !== player.currency && !this.bugs.has('currency_not_checked');
    const isOtherExponent =
      exponent !== -1 && exponent !== player.exponent && !this.bugs.has('exponent_not_checked');
    return isOtherCode || isOtherExponent;
  }

  /** Undoes an operation once. An unknown one is remembered, so that it does not charge later. */
  private async rollBack(call: WalletCall, player: PlayerRow): Promise<ErrorCode | undefined> {
    const { bugs } = this;
    if (!player.token_is_valid && bugs.has('expired_rollbacks_refused')) return 'ERROR_CODE_SESSION_EXPIRED';
    const original = await this.operation(this.originalId(call));
    if (bugs.has('rollbacks_in_parallel')) await sleep(GAP_MS);
    if (original === undefined) {
      if (bugs.has('rollback_of_unknown_refused')) return 'ERROR_CODE_UNKNOWN_ORIGINAL';
      if (!bugs.has('rollback_of_unknown_forgotten')) await this.rememberRollback(this.originalId(call));
      return undefined;
    }
    if (original.state === 'rolled_back' && !bugs.has('rollback_each_time')) return undefined;
    if (bugs.has('one_rollback_a_round') && (await this.hasRollback(call))) return undefined;
    const isReturned = original.state !== 'refused' || bugs.has('rollback_of_refused_pays');
    let change = isReturned ? BigInt(original.stake) - BigInt(original.win) : 0n;
    // This is DEBIT_MODE_REJECT: a win that the player has spent cannot be taken back.
    if (BigInt(player.balance) + change < 0n) {
      if (!bugs.has('spent_win_taken_in_part')) return 'ERROR_CODE_INSUFFICIENT_FUNDS';
      change = -BigInt(player.balance);
    }
    await this.db.query(`update example_wallet.operations set state = 'rolled_back' where op_id = $1`, [
      this.originalId(call),
    ]);
    return this.move(call, player, change);
  }

  private async move({ player }: WalletCall, _row: PlayerRow, change: bigint): Promise<undefined> {
    await this.db.query('update example_wallet.players set balance = balance + $2 where id = $1', [
      player,
      String(change),
    ]);
  }

  private async store(call: WalletCall, state: OperationRow['state'], body: Body): Promise<void> {
    const { action, opId, content, player, round, stake, win } = call;
    if (action === 'credit' && this.bugs.has('answer_of_credit_not_stored')) return;
    if (this.bugs.has('answer_lost_with_connection')) {
      await sleep(GAP_MS);
      if (!this.isConnected()) return;
    }
    await this.db.query(
      `insert into example_wallet.operations (op_id, content, player, round, stake, win, state, answer)
       values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing`,
      [opId, content, player, round, String(stake), String(win), state, JSON.stringify(body)],
    );
  }

  private async operation(opId: string): Promise<OperationRow | undefined> {
    const { rows } = await this.db.query<OperationRow>(
      'select content, stake, win, state, answer from example_wallet.operations where op_id = $1',
      [opId],
    );
    return rows[0];
  }

  private originalId({ original }: WalletCall): string {
    if (!this.bugs.has('op_ids_by_action')) return original;
    return `debit:${original}`;
  }

  /** Whether another call of the round was rolled back; only a bug asks. */
  private async hasRollback(call: WalletCall): Promise<boolean> {
    const { rows } = await this.db.query(
      `select 1 from example_wallet.operations o join example_wallet.operations p using (player, round)
       where o.op_id = $1 and p.state = 'rolled_back'`,
      [this.originalId(call)],
    );
    return rows.length > 0;
  }

  private async rememberRollback(opId: string): Promise<void> {
    await this.db.query(
      'insert into example_wallet.rolled_back_early (op_id) values ($1) on conflict do nothing',
      [opId],
    );
  }

  private async isRolledBackEarly(opId: string): Promise<boolean> {
    const { rows } = await this.db.query('select 1 from example_wallet.rolled_back_early where op_id = $1', [
      opId,
    ]);
    return rows.length > 0;
  }

  private async isClosed({ player, round }: WalletCall): Promise<boolean> {
    const { rows } = await this.db.query(
      'select 1 from example_wallet.closed_rounds where player = $1 and round = $2',
      [player, round],
    );
    return rows.length > 0;
  }

  // --- calls without an effect

  private async balance({ player, opId }: WalletCall): Promise<Body> {
    const { rows } = await this.db.query<PlayerRow>(
      'select balance from example_wallet.players where id = $1',
      [player],
    );
    const [row] = rows;
    if (row === undefined) return failure('ERROR_CODE_PLAYER_NOT_FOUND');
    return { status: 'ok', op_id: opId, balance: row.balance };
  }

  private async authenticate(call: WalletCall): Promise<Body> {
    const player = await this.player(call);
    if (player === undefined) return failure('ERROR_CODE_PLAYER_NOT_FOUND');
    if (player.token !== call.token || !player.token_is_valid) return failure('ERROR_CODE_SESSION_EXPIRED');
    return { status: 'ok', player: call.player, currency: player.currency };
  }

  private async reconcile(call: WalletCall): Promise<Body> {
    const operation = await this.operation(this.originalId(call));
    if (operation === undefined && this.bugs.has('reconcile_refuses_unknown'))
      return failure('ERROR_CODE_UNKNOWN_ORIGINAL');
    return { status: 'ok', original: call.original, state: operation?.state ?? 'unknown' };
  }
}

export function failure(code: ErrorCode): Body {
  return walletFailure(code);
}
