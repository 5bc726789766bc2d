/** The wallets and intakes of a sandbox, read from the files that its file names. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { readSecrets } from '../../config/webhook';
import type { WalletAction } from '../../contract/actions';
import { attributeRounds, feedOfConnection } from '../../ledger/attributions';
import { messageOf } from '../../lib/errors';
import type { StoreAccess } from '../../postgres/pool';
import { describeFileFault } from '../../reference-file/report';
import type { KnownKeys } from '../../sandbox/authentication';
import type { SandboxConfig, SandboxIntake, SandboxOperator } from '../../sandbox/config-file';
import type { SandboxIntakeClient } from '../../sandbox/publisher';
import type { WriteWalletAmount } from '../../sandbox/rounds';
import { makeWalletClient, type WalletClient } from '../../wallet/client';
import { parseProfile } from '../../wallet/profile-file';
import { writeAmount } from '../../wallet/template';
import { sendBatch } from '../../webhook/client';

export interface SandboxWallet {
  readonly operatorId: string;
  readonly client: WalletClient;
  readonly actions: ReadonlySet<WalletAction>;
  readonly writeAmount: WriteWalletAmount;
}

export interface SandboxFiles {
  readonly keys: KnownKeys;
  readonly wallets: readonly SandboxWallet[];
  readonly intakes: readonly SandboxIntakeClient[];
}

/**
 * @param file the file of the sandbox; the other files are beside it
 * @param database the store of the intakes that name none
 * @returns all problems at once, or their content
 */
export async function readSandboxFiles(
  { operators }: SandboxConfig,
  file: string,
  database: StoreAccess,
): Promise<SandboxFiles | { readonly problems: readonly string[] }> {
  const problems: string[] = [];
  const keys = new Map<string, NonNullable<ReturnType<KnownKeys['get']>>>();
  const wallets: SandboxWallet[] = [];
  const intakes: SandboxIntakeClient[] = [];
  const beside = (name: string) => resolve(dirname(file), name);
  for (const operator of operators) {
    for (const key of operator.keys) {
      const secret = await readSecretFile(beside(key.secretFile), problems);
      if (secret !== undefined) keys.set(key.id, { operator, key, secret });
    }
    if (operator.walletFile !== null) {
      const wallet = await readWallet(operator, beside(operator.walletFile), problems);
      if (wallet !== undefined) wallets.push(wallet);
    }
    if (operator.intake !== null) {
      const intake = await readIntake(operator.id, operator.intake, beside, database, problems);
      if (intake !== undefined) intakes.push(intake);
    }
  }
  return problems.length > 0 ? { problems } : { keys, wallets, intakes };
}

async function readSecretFile(path: string, problems: string[]): Promise<string | undefined> {
  try {
    const secret = (await readFile(path, 'utf8')).trim();
    if (secret !== '') return secret;
    problems.push(`${path} is empty; write the secret or the address into it`);
  } catch (error) {
    problems.push(`a file that the sandbox needs cannot be read: ${messageOf(error)}`);
  }
  return undefined;
}

async function readWallet(
  { id }: SandboxOperator,
  file: string,
  problems: string[],
): Promise<SandboxWallet | undefined> {
  const text = await readSecretFile(file, problems);
  if (text === undefined) return undefined;
  const parsed = parseProfile(text, file);
  if ('faults' in parsed) {
    problems.push(...parsed.faults.map((fault) => describeFileFault(file, fault)));
    return undefined;
  }
  const { profile } = parsed;
  if (profile.operatorId !== id) {
    problems.push(`${file}: operator_id is not ${JSON.stringify(id)}; write the operator of the sandbox`);
    return undefined;
  }
  const { signing } = profile;
  const secret =
    signing === null ? '' : await readSecretFile(resolve(dirname(file), signing.secretFile), problems);
  if (secret === undefined) return undefined;
  const client = makeWalletClient(profile, {
    secret: () => Buffer.from(secret),
    monotonicNow: () => performance.now(),
    wallNow: Date.now,
  });
  return {
    operatorId: id,
    client,
    actions: new Set(profile.actions.keys()),
    writeAmount: (minor, exponent) => writeAmount(minor, profile.amounts, exponent),
  };
}

async function readIntake(
  operatorId: string,
  { url, connection, secretFile, databaseFile }: SandboxIntake,
  beside: (name: string) => string,
  database: StoreAccess,
  problems: string[],
): Promise<SandboxIntakeClient | undefined> {
  const path = beside(secretFile);
  const text = await readSecretFile(path, problems);
  if (text === undefined) return undefined;
  const read = readSecrets(JSON.stringify({ [connection]: text }));
  if ('problem' in read) {
    problems.push(`${path} ${read.problem}. ${read.remedy}`);
    return undefined;
  }
  const secret = read.value.get(connection)?.[0];
  const address = databaseFile === null ? '' : await readSecretFile(beside(databaseFile), problems);
  if (secret === undefined || address === undefined) return undefined;
  const target = { url: new URL(url), connectionId: connection, secret };
  return {
    operatorId,
    async send(id, events, stop) {
      const sent = await sendBatch(
        target,
        id,
        events.map((event) => Buffer.from(event)),
        stop,
      );
      if (sent.type === 'decided')
        return { type: 'decided', verdicts: sent.verdicts.map(({ standing }) => standing) };
      return { type: 'undecided', because: sent.because, waitMs: sent.type === 'later' ? sent.waitMs : 0 };
    },
    async attribute(attributions) {
      const store = address === '' ? database : address;
      // A connection for tests, and one with a feed of its own, do not decide into the operator's feed.
      const feedId = await feedOfConnection(store, operatorId, connection);
      if (feedId === null)
        throw new Error(
          `the reference data has no connection ${connection} of ${operatorId}: add it, or correct the intake of the sandbox`,
        );
      const results = await attributeRounds(
        store,
        operatorId,
        attributions.map((attribution) => ({ ...attribution, feedId })),
      );
      return results.map(({ outcome }) => outcome);
    },
  };
}
