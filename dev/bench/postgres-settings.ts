/** Settings of Postgres that more than one mode measures with, and how such settings are written. */
import type { Settings } from './stage';

/** Beside memory, what docs/performance.md recommends for a server that the worker has to itself. */
export const FEWER_CHECKPOINTS: Settings = { max_wal_size: '4GB', checkpoint_timeout: '15min' };

/** Bytes of WAL from one checkpoint to the next with max_wal_size=1GB and checkpoint_completion_target=0.9, as they are by default. */
export const CHECKPOINT_DISTANCE = 512 * 1024 ** 2;

export function settingsText(settings: Settings): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}
