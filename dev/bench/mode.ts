/** What a mode of the benchmark is. */
import type { Defaults, Extent } from './extent';
import type { Measured } from './result';
import type { Stage } from './stage';

export interface Bench {
  readonly stage: Stage;
  readonly extent: Extent;
  /** Tells how far it is. */
  readonly say: (line: string) => void;
}

export interface Mode {
  readonly name: string;
  readonly about: string;
  /** It passes or fails, and its figures are not kept. */
  readonly isCheck?: true;
  /** DATABASE_URL is left aside: its Postgres is started for it, so that it may start it anew with other settings. */
  readonly ownPostgres?: true;
  /** The same of KAFKA_BROKERS. */
  readonly ownKafka?: true;
  readonly extent: Defaults;
  run(bench: Bench): Promise<Measured>;
}
