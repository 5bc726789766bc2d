/** A mode of the benchmark. */
import type { Defaults, Extent } from './extent';
import type { Measured } from './result';
import type { Stage } from './stage';

export interface Bench {
  readonly stage: Stage;
  readonly extent: Extent;
  /** Reports the progress. */
  readonly say: (line: string) => void;
}

export interface Mode {
  readonly name: string;
  readonly about: string;
  /** It answered a question once: docs/tuning.md has its figures, and no release repeats it. */
  readonly isExperiment?: true;
  /** It passes or fails, and its figures are not kept. */
  readonly isCheck?: true;
  /**
   * DATABASE_URL is ignored: the mode gets a Postgres of its own, so that it may restart it with other
   * settings.
   */
  readonly ownPostgres?: true;
  /** The same for KAFKA_BROKERS. */
  readonly ownKafka?: true;
  readonly extent: Defaults;
  run(bench: Bench): Promise<Measured>;
}
