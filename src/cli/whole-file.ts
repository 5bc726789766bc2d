/**
 * Writes a file that exists only once it is whole. It is written beside its place, and renamed at the end.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { causesOf, Unable } from './explain-error';
import { wrongOption } from './option-values';

const PART_BYTES = 256 * 1024;

export interface WholeFile {
  /** Resolves once there is room for more. @throws Unable */
  write(...parts: readonly (string | Buffer)[]): Promise<void>;
  /** Puts the file into its place, and replaces a file that was there. @throws Unable */
  finish(): Promise<void>;
  /** Removes what is written. Does nothing after `finish`. */
  discard(): Promise<void>;
}

/**
 * Opens a file of an option for writing.
 *
 * @param option the option that names the file
 * @throws ConfigError if the place cannot hold a file
 */
export async function openWholeFile(option: string, path: string): Promise<WholeFile> {
  await needPlace(option, path);
  const beside = `${path}.${randomUUID().slice(0, 8)}.part`;
  let handle: FileHandle;
  try {
    handle = await open(beside, 'wx');
  } catch (error) {
    const code = causesOf(error)[0]?.code;
    throw wrongOption(
      option,
      `${path} cannot be written (${code})`,
      'Name a file in a directory that exists',
    );
  }
  let held: Buffer[] = [];
  let heldBytes = 0;
  let isOpen = true;

  const attempt = async (work: () => Promise<unknown>) => {
    try {
      await work();
    } catch (error) {
      throw new Unable(
        `${path} cannot be written (${causesOf(error)[0]?.code}). Free its disk, or name another file in --${option}.`,
      );
    }
  };
  const flush = async () => {
    const bytes = Buffer.concat(held);
    held = [];
    heldBytes = 0;
    await handle.writeFile(bytes);
  };

  return {
    async write(...parts) {
      for (const part of parts) {
        const bytes = typeof part === 'string' ? Buffer.from(part) : part;
        held.push(bytes);
        heldBytes += bytes.length;
      }
      if (heldBytes >= PART_BYTES) await attempt(flush);
    },
    async finish() {
      await attempt(async () => {
        await flush();
        await handle.sync();
        await handle.close();
        await rename(beside, path);
        isOpen = false;
      });
    },
    async discard() {
      if (!isOpen) return;
      isOpen = false;
      // The reason for the discard is reported. A second failure here adds nothing.
      await handle.close().catch(() => undefined);
      await rm(beside, { force: true }).catch(() => undefined);
    },
  };
}

/** @throws ConfigError where something other than a file is at the place: a rename would replace it */
async function needPlace(option: string, path: string): Promise<void> {
  try {
    if (!(await stat(path)).isFile()) throw wrongOption(option, `${path} is no file`, 'Name a file');
  } catch (error) {
    if (causesOf(error)[0]?.code !== 'ENOENT') throw error;
  }
}
