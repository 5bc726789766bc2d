/** Events at a steady rate through `promo-intake publish`, inside the cluster, and their verdicts. */
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { eventText } from '../bench/feed';
import { endOf } from '../containers/run';
import { until, within } from '../servers/deadline';
import type { Kubernetes } from './kubernetes';

export const TOPIC = 'promo.event.v1';
export const PARTITIONS = 6;
/** Events a second: far below the limits of a worker, but enough to show each second of a pause. */
export const RATE = 400;
const TICK_MS = 10;
const PLAYERS = 500;
/** Kinds of the events of a round. */
const KINDS = ['bet', 'win', 'settled', 'win'];
const PUBLISH_DEADLINE_MS = 60_000;
const DECIDE_DEADLINE_MS = 120_000;

/** The result of a load. Times are in seconds, from the creation of an event to the commit of its verdict. */
export interface Outcome {
  readonly sent: number;
  readonly accepted: number;
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
}

let loads = 0;

export class Load {
  private readonly prefix = `load-${process.pid}-${loads++}-`;
  private readonly publisher: ChildProcessWithoutNullStreams;
  private readonly ended: Promise<number | null>;
  private readonly timer: NodeJS.Timeout;
  private readonly began = performance.now();
  private output = '';
  private sent = 0;

  constructor(private readonly kubernetes: Kubernetes) {
    this.publisher = kubernetes.startKubectl(kubernetes.atDesk(['publish', '-', '--topic', TOPIC]));
    this.publisher.stdin.on('error', () => {
      // `stop` reads its exit code.
    });
    for (const stream of [this.publisher.stdout, this.publisher.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.output += text;
      });
    this.ended = endOf(this.publisher);
    this.ended.catch(() => {
      // `stop` reports the error.
    });
    this.timer = setInterval(() => this.send(), TICK_MS);
  }

  private send(): void {
    const due = Math.floor(((performance.now() - this.began) / 1000) * RATE);
    let lines = '';
    for (; this.sent < due; this.sent++) {
      const round = Math.floor(this.sent / KINDS.length);
      const kind = KINDS[this.sent % KINDS.length] ?? 'bet';
      const event = {
        eventId: `${this.prefix}${this.sent}`,
        player: `player-${round % PLAYERS}`,
        kind,
        round: `${this.prefix}${round}`,
        amount: '1.00',
        at: Date.now(),
      };
      lines += `${eventText(event)}\n`;
    }
    this.publisher.stdin.write(lines);
  }

  /**
   * Ends the load and waits until all of it is decided.
   *
   * @throws if an event was not delivered, or is not decided in time
   */
  async stop(): Promise<Outcome> {
    clearInterval(this.timer);
    this.publisher.stdin.end();
    const code = await within('the load is delivered', PUBLISH_DEADLINE_MS, this.ended);
    if (code !== 0) throw new Error(`publish: exit code ${code}\n${this.output}`);
    let accepted = 0;
    await until(`all of ${this.sent} events are decided`, DECIDE_DEADLINE_MS, async () => {
      const [row] = await this.kubernetes.sql(
        `select count(*)::int as accepted from promo.verdicts where event_id like '${this.prefix}%' and verdict = 'accepted'`,
      );
      accepted = Number(row?.accepted);
      return accepted >= this.sent;
    });
    const [row] = await this.kubernetes.sql(`
      select percentile_cont(array[0.5, 0.99, 1]) within group (order by extract(epoch from pg_xact_commit_timestamp(xmin) - occurred_at)) as seconds
      from promo_store.history where event_id like '${this.prefix}%'`);
    const [p50, p99, most] = Array.isArray(row?.seconds) ? row.seconds.map(Number) : [];
    if (p50 === undefined || p99 === undefined || most === undefined)
      throw new Error('Postgres keeps no times of commits');
    return { sent: this.sent, accepted, p50, p99, most };
  }

  /** Ends it without a report. */
  abandon(): void {
    clearInterval(this.timer);
    this.publisher.kill();
  }
}

/** As a sentence: the numbers of sent and lost events, and their latency. */
export const describeOutcome = ({ sent, accepted, p50, p99, most }: Outcome): string =>
  `${sent} events sent, ${sent - accepted} lost; to decide: p50 ${ms(p50)}, p99 ${ms(p99)}, at most ${ms(most)}`;

const ms = (seconds: number): string =>
  seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
