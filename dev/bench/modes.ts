/** The modes of the benchmark, in the order of the documentation. */
import { describeExtent } from './extent';
import type { Mode } from './mode';
import { batch } from './modes/batch';
import { calm } from './modes/calm';
import { compression } from './modes/compression';
import { duplicates } from './modes/duplicates';
import { hot } from './modes/hot';
import { keys } from './modes/keys';
import { latency } from './modes/latency';
import { neighbours, neighboursCheck } from './modes/neighbours';
import { postgres } from './modes/postgres';
import { progress } from './modes/progress';
import { promotions } from './modes/promotions';
import { questions } from './modes/questions';
import { reconcile } from './modes/reconcile';
import { refund } from './modes/refund';
import { rollups } from './modes/rollups';
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
  calm,
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
  reconcile,
  questions,
  rollups,
  promotions,
  progress,
  neighbours,
  postgres,
  short,
  neighboursCheck,
];

export const DEFAULT_MODE = throughput.name;

/** The modes in groups, each with its purpose and its extent as one would write it. */
export function listModes(): string[] {
  const width = Math.max(...MODES.map(({ name }) => name.length));
  const group = (title: string, modes: readonly Mode[]) => [
    title,
    ...modes.flatMap(({ name, about, extent }) => [
      `  ${name.padEnd(width)}  ${about}`,
      `  ${''.padEnd(width)}  ${describeExtent(extent)}`,
    ]),
    '',
  ];
  const isUsual = ({ isCheck, isExperiment }: Mode) => !isCheck && !isExperiment;
  return [
    'usage: make bench BENCH=mode [BENCH_NAME=value ...]',
    'Lists are comma-separated. BENCH_RATE=0 measures the full rate first, with BENCH_EVENTS events.',
    '',
    ...group('modes:', MODES.filter(isUsual)),
    ...group(
      'experiments, which answered a question of docs/tuning.md:',
      MODES.filter(({ isExperiment }) => isExperiment),
    ),
    ...group(
      'checks, which exit with 1 where a limit is exceeded:',
      MODES.filter(({ isCheck }) => isCheck),
    ),
  ].slice(0, -1);
}
