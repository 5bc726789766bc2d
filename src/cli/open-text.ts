/** Opens a file of text, and refuses one that is compressed or UTF-16. */
import { ConfigError } from '../config/config';
import { foreignTextOf } from '../lib/foreign-text';
import { openInput } from './open-input';

/**
 * Reads a file, or standard input for `-`, as `openInput` does.
 *
 * @param command reads the converted text in the remedy
 * @throws ConfigError if the file is no UTF-8
 */
export async function* openText(file: string, command: string, stop: AbortSignal): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const chunk of openInput(file, stop)) {
    const foreign = isFirst ? foreignTextOf(chunk) : undefined;
    if (foreign !== undefined) {
      const remedy = `Run: ${foreign.convert} | promo-intake ${command} -`;
      throw new ConfigError([{ setting: 'FILE', problem: foreign.problem, remedy }]);
    }
    isFirst = false;
    yield chunk;
  }
}
