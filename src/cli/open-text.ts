/** Opens a file of text, and refuses one that is compressed or UTF-16, or a file of `reconcile --mend`. */
import { ConfigError } from '../config/config';
import { foreignTextOf } from '../lib/foreign-text';
import { isObject, parseJson } from '../lib/json';
import { openInput } from './open-input';

/**
 * Reads a file, or standard input for `-`, as `openInput` does.
 *
 * @param command reads the converted text in the remedy
 * @throws ConfigError if the file is no UTF-8, or its lines are those of `reconcile --mend`
 */
export async function* openText(file: string, command: string, stop: AbortSignal): AsyncGenerator<Buffer> {
  let isFirst = true;
  for await (const chunk of openInput(file, stop)) {
    const fault = isFirst ? faultOf(chunk, command) : undefined;
    if (fault !== undefined) throw new ConfigError([{ setting: 'FILE', ...fault }]);
    isFirst = false;
    yield chunk;
  }
}

function faultOf(first: Buffer, command: string): { problem: string; remedy: string } | undefined {
  const foreign = foreignTextOf(first);
  if (foreign !== undefined)
    return { problem: foreign.problem, remedy: `Run: ${foreign.convert} | promo-intake ${command} -` };
  if (beginsWithCorrection(first))
    return {
      problem: 'has answers of reconcile, and no events',
      remedy: `Take the events out, and correct them: jq -c '.event // empty' FILE > corrected.ndjson`,
    };
  return undefined;
}

/**
 * Whether the first line is one of `reconcile --mend`. It names the event_id of a faulty event. Sent as an
 * event it would be rejected, and would use that id up.
 */
function beginsWithCorrection(first: Buffer): boolean {
  const [line = ''] = first.toString('utf8').split('\n', 1);
  const json = line.startsWith('{"line":') ? parseJson(line) : undefined;
  return isObject(json) && 'state' in json && 'action' in json && !('spec' in json);
}
