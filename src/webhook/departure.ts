/**
 * The departure of an answer. A request holds its place until its answer has left, so that unread answers
 * have a limit. Once another request waits for the place, the sender has to read its answer soon.
 */
import type { Clock, Timer } from '../lib/clock';

/** The time to read an answer while another request waits for the place. */
const READ_SOON_WITHIN_MS = 200;

export interface Departing {
  /** Resolves once the answer has left, or can no longer leave. */
  readonly sent: Promise<unknown>;
  /** Ends the network connection, since its peer does not read. */
  dropUnread(): void;
}

export class AnswerDeparture {
  /** Whether another request waits for the place. */
  isAwaited = false;
  private isAnswered = false;
  private limit: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly incoming: Departing,
  ) {}

  /** Called once another request waits for the place: see Places. */
  readonly hurry = (): void => {
    this.isAwaited = true;
    this.limitUnread();
  };

  /** Resolves once the answer is made and has left, or the work has failed. */
  async ended(answer: Promise<unknown>): Promise<void> {
    await Promise.allSettled([answer]);
    this.isAnswered = true;
    this.limitUnread();
    await this.incoming.sent;
    this.clock.cancel(this.limit);
  }

  private limitUnread(): void {
    if (!this.isAnswered || !this.isAwaited) return;
    this.limit ??= this.clock.after(READ_SOON_WITHIN_MS, () => this.incoming.dropUnread(), false);
  }
}
