/** Settings of Postgres that more than one mode measures with, and how such settings are written. */
import type { Settings } from './stage';

/** Beside memory, what docs/performance.md recommends for a server that the worker has to itself. */
export const FEWER_CHECKPOINTS: Settings = { max_wal_size: '4GB', checkpoint_timeout: '15min' };

export function settingsText(settings: Settings): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}
