/** The modes of the benchmark, in the order of the documentation. */
import { describeExtent } from './extent';
import type { Mode } from './mode';
import { batch } from './modes/batch';
import { compression } from './modes/compression';
import { duplicates } from './modes/duplicates';
import { hot } from './modes/hot';
import { keys } from './modes/keys';
import { latency } from './modes/latency';
import { neighbours, neighboursCheck } from './modes/neighbours';
import { postgres } from './modes/postgres';
import { refund } from './modes/refund';
import { rtt } from './modes/rtt';
import { short } from './modes/short';
import { soak } from './modes/soak';
import { start } from './modes/start';
import { stream } from './modes/stream';
import { throughput } from './modes/throughput';
import { unrest } from './modes/unrest';
import { webhook } from './modes/webhook';
import { workers } from './modes/workers';

export const MODES: readonly Mode[] = [
  throughput,
  batch,
  latency,
  keys,
  duplicates,
  soak,
  unrest,
  rtt,
  workers,
  start,
  hot,
  refund,
  stream,
  compression,
  webhook,
  neighbours,
  postgres,
  short,
  neighboursCheck,
];

export const DEFAULT_MODE = throughput.name;

/** A line for each mode, with its extent as one would write it. */
export function listModes(): string[] {
  const width = Math.max(...MODES.map(({ name }) => name.length));
  return MODES.flatMap(({ name, about, extent }) => [
    `  ${name.padEnd(width)}  ${about}`,
    `  ${''.padEnd(width)}  ${describeExtent(extent)}`,
  ]);
}
