/**
 * `make bench [BENCH=mode]` measures speed and cost on this machine, and `BENCH=help` lists the modes. The
 * figures go to docs/performance/, from where dev/generate.ts writes them into the documents.
 */
import { Extent, ExtentError } from './bench/extent';
import { describeMachine } from './bench/machine';
import { watchHost } from './bench/measure';
import type { Mode } from './bench/mode';
import { DEFAULT_MODE, listModes, MODES } from './bench/modes';
import { CHECKPOINT_DISTANCE } from './bench/postgres-settings';
import { goalText, type Measured, writeResult } from './bench/result';
import { Stage, wearIn } from './bench/stage';
import { figure, tableText } from './bench/table';
import { ADDRESS_VARIABLES, InterruptedError, type Servers, startServers } from './servers';
import { requireProduct } from './servers/product';
import { EXIT_CODES, endingSignal, runProgram } from './servers/program';
import { Supervisor } from './servers/supervisor';

const USAGE_EXIT_CODE = 2;
const HELP = 'help';

const begun = performance.now();
const say = (line: string): void => {
  const seconds = Math.round((performance.now() - begun) / 1000);
  process.stderr.write(`${String(seconds).padStart(5)} s  ${line}\n`);
};

/** @returns the exit code */
async function measure(
  mode: Mode,
  extent: Extent,
  starting: Promise<Servers>,
  supervisor: Supervisor,
): Promise<number> {
  const servers = await starting;
  const machine = await describeMachine(servers);
  const stage = new Stage(servers, supervisor);
  if (servers.origin.postgres !== 'environment') await wearIn(stage.serverUrl, 2 * CHECKPOINT_DISTANCE);
  const takenByHost = watchHost();
  const measured = await mode.run({ stage, extent, say });
  const { variant, failure, settings = [], ...figures } = measured;
  const result = {
    ...figures,
    name: variant === undefined ? mode.name : `${mode.name}-${variant}`,
    measuredAt: new Date().toISOString(),
    machine,
    settings: [extent.describe(), ...settings, `the host took ${figure(takenByHost(), 1)} % of the CPU`],
  };
  print(mode, [...result.machine, ...result.settings], measured);
  if (mode.isCheck !== true) {
    const files = writeResult(result);
    say(`written: ${files.join(', ')}; into the documents by: node build/dev/generate.js`);
  }
  if (failure === undefined) return 0;
  say(`failed: ${failure}`);
  return 1;
}

function print(mode: Mode, circumstances: readonly string[], { table, goals, runs }: Measured): void {
  const lines = [
    `${mode.name}: ${mode.about}`,
    ...circumstances,
    '',
    ...tableText(table),
    '',
    ...goals.map(goalText),
    ...runs.map((run) => JSON.stringify(run)),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

async function bench(mode: Mode): Promise<number> {
  const extent = new Extent(mode.extent, process.env);
  requireProduct();
  const signalled = endingSignal();
  const supervisor = new Supervisor(() => {}, false);
  const starting = startServers({
    need: ['kafka', 'postgres'],
    log: say,
    longLived: true,
    environment: {
      ...process.env,
      ...(mode.ownPostgres && { [ADDRESS_VARIABLES.postgres]: undefined }),
      ...(mode.ownKafka && { [ADDRESS_VARIABLES.kafka]: undefined }),
    },
    exitAfterSignal: false,
  });
  try {
    const outcome = await Promise.race([measure(mode, extent, starting, supervisor), signalled]);
    return typeof outcome === 'number' ? outcome : EXIT_CODES[outcome];
  } catch (error) {
    // A signal stops the servers, and the current step then fails; the signal is the cause.
    if (error instanceof InterruptedError) return EXIT_CODES[await signalled];
    throw error;
  } finally {
    say('removing what was made');
    await supervisor.stop();
    const servers = await starting.catch(() => undefined);
    await servers?.stop();
  }
}

async function main(): Promise<number> {
  const name = process.env.BENCH || DEFAULT_MODE;
  if (name === HELP) {
    process.stdout.write(`${listModes().join('\n')}\n`);
    return 0;
  }
  const mode = MODES.find((each) => each.name === name);
  if (mode !== undefined) return bench(mode);
  process.stderr.write(`${[`there is no mode ${name}`, '', ...listModes()].join('\n')}\n`);
  return USAGE_EXIT_CODE;
}

runProgram('bench', main, (error) => (error instanceof ExtentError ? USAGE_EXIT_CODE : 1));
