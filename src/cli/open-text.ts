/** Opens a file of text, and refuses one that is compressed or UTF-16: each of its lines would be a fault. */
import { ConfigError } from '../config/config';
import { openInput } from './open-input';

/** The first bytes of files that are no UTF-8, each with the command that converts it. */
const FOREIGN: readonly (readonly [bytes: readonly number[], problem: string, convert: string])[] = [
  [[0x1f, 0x8b], 'is compressed', 'gunzip -c FILE'],
  [[0x28, 0xb5, 0x2f, 0xfd], 'is compressed', 'zstd -dc FILE'],
  [[0xff, 0xfe], 'is UTF-16, and must be UTF-8', 'iconv -f UTF-16 -t UTF-8 FILE'],
  [[0xfe, 0xff], 'is UTF-16, and must be UTF-8', 'iconv -f UTF-16 -t UTF-8 FILE'],
  // Without a byte order mark. JSON and CSV begin with a character of ASCII.
  [[0x7b, 0x00], 'is UTF-16, and must be UTF-8', 'iconv -f UTF-16LE -t UTF-8 FILE'],
  [[0x5b, 0x00], 'is UTF-16, and must be UTF-8', 'iconv -f UTF-16LE -t UTF-8 FILE'],
  [[0x00, 0x7b], 'is UTF-16, and must be UTF-8', 'iconv -f UTF-16BE -t UTF-8 FILE'],
  [[0x00, 0x5b], 'is UTF-16, and must be UTF-8', 'iconv -f UTF-16BE -t UTF-8 FILE'],
];

/**
 * Reads a file, or standard input for `-`, as `openInput` does.
 *
 * @param command reads the converted text in the remedy
 * @throws ConfigError if the file is no UTF-8
 */
export async function* openText(file: string, command: string, stop: AbortSignal): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const chunk of openInput(file, stop)) {
    const foreign = isFirst && FOREIGN.find(([bytes]) => bytes.every((byte, at) => chunk[at] === byte));
    if (foreign) {
      const [, problem, convert] = foreign;
      throw new ConfigError([
        { setting: 'FILE', problem, remedy: `Run: ${convert} | promo-intake ${command} -` },
      ]);
    }
    isFirst = false;
    yield chunk;
  }
}
