/**
 * `make demo`: a feed of two operators passes through the real commands on real servers, and a report
 * follows. In a terminal the servers then stay up for exploration, until Ctrl-C. The demo removes everything
 * that it made.
 */
import { type FeedRecord, makeFeed } from './demo/feed';
import { withClient } from './demo/guest';
import { reportOwnTopic } from './demo/own-topic';
import { untilDecided } from './demo/progress';
import { reportPromotions } from './demo/promotions';
import { publish } from './demo/publish';
import { makeDemoReport, reportAnomalies, reportLedger, reportOutcomes, reportSpeed } from './demo/report';
import { count, makeScreen, progressBar } from './demo/screen';
import { describeServers, prepareStage, type Stage } from './demo/stage';
import { printStory } from './demo/story';
import { refundByWebhook } from './demo/webhook';
import { reportWhichOfMine } from './demo/which-of-mine';
import { InterruptedError, type Servers, startServers } from './servers';
import { findEngine, removeContainers } from './servers/engine';
import { findOnPath } from './servers/java';
import { requireProduct } from './servers/product';
import { EXIT_CODES, endingSignal, runProgram } from './servers/program';
import { reapLeftovers } from './servers/stack-directory';
import { Supervisor } from './servers/supervisor';

const SEED = 20_261_121;
const EVENTS = 20_000;

const screen = makeScreen(process.stdout, process.env);
const isWatched = process.stdin.isTTY === true && process.stdout.isTTY === true;
const log = (line: string): void => screen.step('servers', line);

/** Plays the demo from the first server to the last line of the report. */
async function perform(starting: Promise<Servers>, supervisor: Supervisor): Promise<void> {
  const servers = await starting;
  screen.step('servers', describeServers(servers));
  screen.passing('servers', 'making topics and a database ...');
  const stage = await prepareStage(servers, supervisor, log);

  screen.passing('migrate', 'promo-intake migrate ...');
  screen.step('migrate', lastLine(await stage.run('migrate')));
  screen.passing('reference', 'promo-intake reference apply ...');
  const applied = lastLine(await stage.run('reference', 'apply', stage.referenceFile));
  screen.step('reference', `${applied} (dev/demo/reference.yaml)`);
  const feed = [...makeFeed({ seed: SEED, events: EVENTS, now: Date.now() })];
  const records = await publishFeed(stage, feed);
  const seconds = await decideAll(stage, records);

  await withClient(stage.databaseUrl, async (client) => {
    // Without statistics, Postgres may choose plans for the report that take half a minute.
    await client.query('analyze');
    await reportOutcomes(client, screen);
    const roundId = await printStory(client, screen);
    await reportLedger(client, screen);
    await reportAnomalies(client, screen);
    await refundByWebhook(stage, client, screen);
    reportSpeed(records, seconds, screen);
    // The last parts: an operator's own topic, its file with twelve faults, and promotions.
    const messages = await reportOwnTopic(stage, screen);
    await reportWhichOfMine(stage, feed, messages, screen);
    await reportPromotions(stage, client, screen);
    printWhereToLook(stage.databaseUrl, roundId, await makeDemoReport(stage, client));
  });
}

async function publishFeed(stage: Stage, feed: readonly FeedRecord[]): Promise<number> {
  const begin = performance.now();
  const records = await publish(stage, feed, (sent) => screen.passing('publish', progressBar(sent, EVENTS)));
  const seconds = ((performance.now() - begin) / 1_000).toFixed(1);
  screen.step('publish', `${count(records)} records of 5 connections in 4 topics (${seconds} s)`);
  return records;
}

async function decideAll(stage: Stage, records: number): Promise<number> {
  screen.passing('worker', progressBar(0, records));
  const worker = stage.start('worker', '--drain');
  const seconds = await untilDecided(worker, stage.databaseUrl, records, (decided) =>
    screen.passing('worker', progressBar(decided, records)),
  );
  screen.step('worker', `${progressBar(records, records)}, drained`);
  return seconds;
}

function printWhereToLook(databaseUrl: string, roundId: string | null, report: string): void {
  screen.heading('Look further');
  screen.line(
    `  Open ${report} in a browser. promo-intake report made it: verdicts, reasons, turnover, refunds,`,
  );
  screen.line('  promotions and points, with charts.');
  screen.line(`  psql '${databaseUrl.replaceAll("'", "'\\''")}'`);
  if (roundId !== null)
    screen.line(`  select * from promo.verdicts where round_id = '${roundId}' order by verdict_id;`);
  screen.line(`  select * from promo.deliveries where content_differs;`);
  if (findOnPath('psql', process.env) === undefined)
    screen.line(
      '  There is no psql on the PATH here: apt-get install postgresql-client, or use any other client.',
    );
  if (!isWatched)
    screen.line('  The database is removed now. In a terminal the demo waits, and the line above works.');
}

function lastLine(output: string): string {
  return output.trimEnd().split('\n').at(-1) ?? '';
}

/**
 * Removes the directories of killed demos that had no server of their own; startServers removes all others.
 */
async function reapWithoutOwnServers(): Promise<void> {
  await reapLeftovers(log, async (stack) => {
    const engine = await findEngine(process.env, log);
    if (engine === undefined) throw new Error('it had containers, and no container engine answers');
    await removeContainers(engine, stack);
  });
}

/** @returns the exit code */
async function main(): Promise<number> {
  const signalled = endingSignal();
  requireProduct();
  screen.line(
    `promo-intake demo: ${count(EVENTS)} promotion events of two operators, from Kafka to their verdicts`,
  );
  screen.line();
  const supervisor = new Supervisor(() => {}, false);
  screen.passing('servers', 'Kafka and Postgres are being started ...');
  await reapWithoutOwnServers();
  const starting = startServers({ need: ['kafka', 'postgres'], log, exitAfterSignal: false });
  try {
    const interruptedBy = await Promise.race([perform(starting, supervisor).then(() => null), signalled]);
    if (interruptedBy !== null) return EXIT_CODES[interruptedBy];
    if (isWatched) {
      screen.line();
      screen.line('Everything stays up until Ctrl-C.');
      await signalled;
    }
    return 0;
  } catch (error) {
    // A signal stops the servers, and the current step then fails; the signal is the cause.
    if (error instanceof InterruptedError) return EXIT_CODES[await signalled];
    throw error;
  } finally {
    screen.passing('end', 'removing what was made ...');
    await supervisor.stop();
    const servers = await starting.catch(() => undefined);
    await servers?.stop();
    if (isWatched) screen.step('end', 'everything the demo made is removed');
  }
}

runProgram('demo', main);
