/** The effect of Postgres settings on the worker: each setting in turns with the default settings. */
import { withClient } from '../guest';
import type { Bench, Mode } from '../mode';
import { CHECKPOINT_DISTANCE, settingsText } from '../postgres-settings';
import type { Published } from '../publish';
import { cpuPer100k, drain, inTurns, type Run, rateOf, recordOf, watchPostgres } from '../runs';
import { checkpoint, type Settings, type Stage, writeWal } from '../stage';
import { median } from '../statistics';
import { figure, type Table, times } from '../table';
import { publishUsual } from '../usual';

/** Beside memory, the setting that docs/tuning.md recommends for a server that only the worker uses. */
const FEWER_CHECKPOINTS: Settings = { max_wal_size: '4GB', checkpoint_timeout: '15min' };
const MORE_MEMORY: Settings = { shared_buffers: '1GB' };

/**
 * All others are compared with the first variant. None may lose committed data: fsync and similar settings
 * stay on.
 */
export const VARIANTS: readonly Settings[] = [
  {},
  { wal_compression: 'lz4' },
  { wal_compression: 'pglz' },
  FEWER_CHECKPOINTS,
  MORE_MEMORY,
  { ...FEWER_CHECKPOINTS, ...MORE_MEMORY },
  { wal_buffers: '64MB' },
  // Postgres waits only if this many other transactions are about to commit. The default is five; the worker
  // has three connections in all.
  { commit_delay: '500', commit_siblings: '1' },
];

/**
 * Autovacuum might run before a run's checkpoint, after it or not at all. Such chance would cost more than
 * any setting.
 */
const IN_EVERY_RUN: Settings = { autovacuum: 'off' };

/** Bytes of WAL for an event before full-page writes: near enough to have the checkpoint in the middle. */
const WAL_OF_EVENT = 480;
/** Longest time to vacuum the rows that a run has written. */
const VACUUM_MS = 300_000;

export interface Entry {
  readonly round: number;
  readonly settings: Settings;
  readonly run: Run;
  /** Checkpoints that began within the run. */
  readonly checkpoints: number;
}

export const postgres: Mode = {
  name: 'postgres',
  about: 'what settings of Postgres give, each beside the defaults',
  isExperiment: true,
  ownPostgres: true,
  extent: { events: 800_000, rounds: 3 },
  async run(bench) {
    const { stage, extent, say } = bench;
    const rounds = extent.number('rounds');
    const lacking = await variantsLacking(stage);
    const variants = VARIANTS.filter((settings) => !lacking.includes(settings));
    const published = await publishUsual(bench, extent.number('events'));
    const entries: Entry[] = [];
    for (let round = 1; round <= rounds; round++) {
      for (const settings of inTurns(variants, round)) {
        const entry = { round, settings, ...(await measure(bench, published, settings)) };
        entries.push(entry);
        say(
          `round ${round} of ${rounds}: ${nameOf(settings)}: ${figure(rateOf(entry.run))} events/s, ${entry.checkpoints} checkpoints`,
        );
      }
    }
    return {
      table: settingsTable(entries, lacking),
      goals: [],
      runs: entries.map(({ round, settings, run, checkpoints }) => ({
        round,
        settings: nameOf(settings),
        ...recordOf('worker', run),
        checkpoints,
      })),
      settings: [`every run with ${nameOf(IN_EVERY_RUN)}, and a vacuum after it`],
    };
  },
};

function nameOf(settings: Settings): string {
  return settingsText(settings) || 'baseline';
}

/** Variants with a setting or a value that this server was not built with. */
async function variantsLacking({ serverUrl }: Stage): Promise<readonly Settings[]> {
  return withClient(serverUrl, async (client) => {
    const { rows } = await client.query<{ name: string; choices: readonly string[] | null }>(
      'select name, enumvals as choices from pg_settings',
    );
    const choicesOf = new Map(rows.map(({ name, choices }) => [name, choices]));
    const has = ([name, value]: readonly [string, string]) =>
      choicesOf.has(name) && (choicesOf.get(name)?.includes(value) ?? true);
    return VARIANTS.filter((settings) => !Object.entries(settings).every(has));
  });
}

async function measure(
  { stage }: Bench,
  { topic, records }: Published,
  settings: Settings,
): Promise<Pick<Entry, 'run' | 'checkpoints'>> {
  await stage.restartPostgres({ ...IN_EVERY_RUN, ...settings });
  return stage.withDatabase([topic], async (databaseUrl) => {
    let before = 0;
    const prepare = async () => {
      await checkpoint(databaseUrl);
      await writeWal(databaseUrl, CHECKPOINT_DISTANCE - (records / 2) * WAL_OF_EVENT);
      before = await checkpointsBegun(databaseUrl);
    };
    const drained = await drain(stage, { databaseUrl, topic, records, groupId: stage.newGroup(), prepare });
    const checkpoints = (await checkpointsBegun(databaseUrl)) - before;
    return { run: await vacuumAfter(drained, databaseUrl), checkpoints };
  });
}

/** Checkpoints since the server was made. */
async function checkpointsBegun(databaseUrl: string): Promise<number> {
  return withClient(databaseUrl, async (client) => {
    const { rows } = await client.query<{ begun: number }>(
      'select (num_timed + num_requested)::float8 as begun from pg_stat_checkpointer',
    );
    return rows[0]?.begun ?? Number.NaN;
  });
}

/** Vacuums the rows that the run has written, and charges the cost to the run. */
async function vacuumAfter(run: Run, databaseUrl: string): Promise<Run> {
  return withClient(
    databaseUrl,
    async (client) => {
      const postgres = await watchPostgres(client);
      await client.query('vacuum promo_store.history, promo_store.event_keys, promo_store.rounds');
      const { postgresCpuSeconds, walBytes } = await postgres.stop();
      return {
        ...run,
        postgresCpuSeconds: run.postgresCpuSeconds + postgresCpuSeconds,
        walBytes: run.walBytes + walBytes,
      };
    },
    VACUUM_MS,
  );
}

/** @param entries the baseline's entries come first */
export function settingsTable(entries: readonly Entry[], lacking: readonly Settings[]): Table {
  const bySettings = [...Map.groupBy(entries, ({ settings }) => settings)];
  const baselines = new Map(bySettings[0]?.[1].map(({ round, run }) => [round, run]));
  const rows = bySettings.map(([settings, list]) => {
    const middle = (pick: (run: Run) => number) => median(list.map(({ run }) => pick(run)));
    const ratios = (pick: (run: Run) => number) =>
      list.flatMap(({ round, run }) => {
        const baseline = baselines.get(round);
        return baseline === undefined ? [] : [pick(run) / pick(baseline)];
      });
    const rates = ratios(rateOf);
    return [
      nameOf(settings),
      figure(middle(rateOf)),
      times(median(rates)),
      `${times(Math.min(...rates))} - ${times(Math.max(...rates))}`,
      times(middle(cpuPer100k)),
      times(median(ratios(cpuPer100k))),
      figure(middle(walPerEvent)),
      times(median(ratios(walPerEvent))),
      figure(median(list.map(({ checkpoints }) => checkpoints))),
    ];
  });
  const notes = [
    'Medians; x: beside the baseline of the same round. CPU of worker and Postgres in seconds for 100,000 events. CPU and WAL include the vacuum.',
  ];
  if (lacking.length > 0)
    notes.push(`Not measured, since this server was built without it: ${lacking.map(nameOf).join('; ')}.`);
  const columns = [
    'settings',
    'events/s',
    'x',
    'x from - to',
    'CPU s',
    'x',
    'WAL bytes/event',
    'x',
    'checkpoints',
  ];
  return { columns, rows, notes };
}

function walPerEvent({ walBytes, events }: Run): number {
  return walBytes / events;
}
