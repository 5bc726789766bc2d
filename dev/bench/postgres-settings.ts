/** Settings of Postgres that more than one mode uses, and the notation of such settings. */
import type { Settings } from './stage';

/** A connection's writes are flushed at this size, for the same reason as FLUSH_MESSAGES (stage.ts). */
export const FLUSHED: Settings = { backend_flush_after: '256kB' };

/** The settings that docs/tuning.md recommends for a server of 24 GiB under hours of load. */
export const RECOMMENDED: Settings = {
  shared_buffers: '4GB',
  max_wal_size: '16GB',
  min_wal_size: '16GB',
  checkpoint_timeout: '15min',
  ...FLUSHED,
};
/** Bytes of WAL from one checkpoint to the next with these settings. */
export const RECOMMENDED_DISTANCE = 8 * 1024 ** 3;

/**
 * Bytes of WAL from one checkpoint to the next with the defaults: max_wal_size=1GB and
 * checkpoint_completion_target=0.9.
 */
export const CHECKPOINT_DISTANCE = 512 * 1024 ** 2;

export function settingsText(settings: Settings): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}
