/** `promo-intake wallet-check`: runs scenarios of the contract against a test wallet. */
import { randomBytes } from 'node:crypto';
import { open, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { types } from 'node:util';
import { DONE, FAILED, USAGE } from '../../cli/exit-codes';
import { printText } from '../../cli/output';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import type { WalletProfile } from '../../wallet/profile';
import { parseProfile } from '../../wallet/profile-file';
import { runEndpointChecks } from '../../wallet-check/endpoint-runner';
import { endpointChecksFor } from '../../wallet-check/endpoints';
import { checkTally, jsonReport, junitReport, progressLine, textReport } from '../../wallet-check/report';
import { runScenarios } from '../../wallet-check/runner';
import { scenariosFor, selectScenarios } from '../../wallet-check/scenarios/scenarios';
import { connectWallet, whyUnreachable } from '../../wallet-check/transport';
import { printFileFaults } from '../shared/file-faults';

export interface WalletCheckOptions {
  readonly profile: string;
  /** Words of the scenarios to run. Absent: all. */
  readonly only: string | undefined;
  readonly junit: string | undefined;
  readonly json: string | undefined;
}

/** @returns the exit code: 1 if a scenario failed, or none could run */
export async function walletCheck(options: WalletCheckOptions, stop: AbortSignal): Promise<number> {
  const parsed = parseProfile(await readFile(options.profile, 'utf8'), options.profile);
  if ('faults' in parsed) {
    printFileFaults(options.profile, parsed.faults, 'nothing was sent');
    return USAGE;
  }
  const { profile } = parsed;
  const checks = endpointChecksFor(profile);
  const all = [...scenariosFor(profile), ...checks.map(({ scenario }) => scenario)];
  const chosen = new Set(options.only === undefined ? all : selectScenarios(all, options.only));
  const chosenChecks = checks.filter(({ scenario }) => chosen.has(scenario));
  for (const { scenario } of chosenChecks) chosen.delete(scenario);
  const scenarios = [...chosen];
  const total = scenarios.length + chosenChecks.length;
  if (total === 0) {
    console.error(`no scenario has the words "${options.only}"; the scenarios are:`);
    console.error(all.map(({ id }) => `  ${id}`).join('\n'));
    return USAGE;
  }
  const secret = await readSecret(profile, options.profile);
  if (secret === undefined) return USAGE;
  const unwritable = await whyNoReport(options);
  if (unwritable !== undefined) {
    console.error(`${unwritable}; nothing was sent`);
    return USAGE;
  }
  const transport = connectWallet(profile, secret, stop);
  const unreachable = scenarios.length === 0 ? undefined : await whyNoAnswer(profile, secret, stop);
  if (unreachable !== undefined) {
    console.error(unreachable);
    return FAILED;
  }
  const played = await runScenarios(scenarios, {
    profile,
    transport,
    stop,
    clock: systemClock,
    run: `wc-${randomBytes(5).toString('hex')}`,
    progress: (done, result) => console.error(progressLine(done, total, result)),
  });
  const checked = await runEndpointChecks(chosenChecks, {
    stop,
    progress: (done, result) => console.error(progressLine(played.length + done, total, result)),
  });
  const results = [...played, ...checked];
  await printText(textReport(results));
  if (options.json !== undefined) await writeFile(options.json, jsonReport(results));
  if (options.junit !== undefined) await writeFile(options.junit, junitReport(results));
  const { passed, failed } = checkTally(results);
  return failed === 0 && passed > 0 && !stop.aborted ? DONE : FAILED;
}

/** The secret of the signature; empty where the profile has no signature. Undefined after a message. */
async function readSecret({ signing }: WalletProfile, profileFile: string): Promise<string | undefined> {
  if (signing === null) return '';
  const file = resolve(dirname(profileFile), signing.secretFile);
  try {
    const secret = (await readFile(file, 'utf8')).trim();
    if (secret !== '') return secret;
    console.error(`${file} is empty; write the secret of the signature into it`);
  } catch (error) {
    console.error(`the file of signing.secret_file cannot be read: ${messageOf(error)}`);
  }
  return undefined;
}

/** Why a report cannot be written. A run of minutes must not end without its report. */
async function whyNoReport({ profile, junit, json }: WalletCheckOptions): Promise<string | undefined> {
  const taken = new Map([[resolve(profile), '--profile']]);
  for (const [option, file] of [
    ['--junit', junit],
    ['--json', json],
  ] as const) {
    if (file === undefined) continue;
    const other = taken.get(resolve(file));
    if (other !== undefined) return `${option} and ${other} name the same file ${file}; name another`;
    taken.set(resolve(file), option);
    try {
      await tryToWrite(file);
    } catch (error) {
      return `the file of ${option} cannot be written: ${messageOf(error)}; name a file in a directory that exists`;
    }
  }
  return undefined;
}

/** Leaves the file as it was, and leaves no file where there was none. */
async function tryToWrite(file: string): Promise<void> {
  try {
    const made = await open(file, 'wx');
    await made.close();
    await rm(file);
  } catch (error) {
    const isPresent = types.isNativeError(error) && 'code' in error && error.code === 'EEXIST';
    if (!isPresent) throw error;
    const present = await open(file, 'a');
    await present.close();
  }
}

const PROBES = 3;

/** One message for a wallet that is away, instead of a failure of every scenario. */
async function whyNoAnswer(
  profile: WalletProfile,
  secret: string,
  stop: AbortSignal,
): Promise<string | undefined> {
  const path = profile.actions.get('balance')?.path ?? '/';
  let code: string | null = null;
  for (let probe = 1; probe <= PROBES; probe++) {
    if (probe > 1) await systemClock.sleep(500, stop);
    code = await whyUnreachable(profile, secret, path, stop);
    if (code === null || stop.aborted) return undefined;
    if (!/^E/.test(code)) break; // neither silence nor a wrong certificate changes within a second
  }
  if (/CERT|SELF_SIGNED|UNABLE_TO_/.test(code ?? ''))
    return `the certificate of ${profile.baseUrl} is not trusted (${code}); set NODE_EXTRA_CA_CERTS to the file of its authority`;
  return `there is no wallet at ${profile.baseUrl} (${code}); start it, or correct base_url of the profile`;
}
