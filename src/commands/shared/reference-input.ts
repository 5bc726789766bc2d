/** Reference data from a file, which may be gzipped, or from standard input for `-`. */
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { openInput } from '../../cli/open-input';
import { NEVER } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { readUpTo } from '../../lib/read-limited';
import {
  MAX_REFERENCE_BYTES,
  type ParsedReference,
  readReference,
} from '../../reference-file/reference-file';

const GZIP = Buffer.from([0x1f, 0x8b]);
const unzip = promisify(gunzip);

/** Reads at most MAX_REFERENCE_BYTES, gzipped or not. @throws if the file cannot be read */
export async function readReferenceInput(file: string): Promise<ParsedReference> {
  const bytes = await readUpTo(openInput(file, NEVER), MAX_REFERENCE_BYTES);
  if (bytes === null || !bytes.subarray(0, GZIP.length).equals(GZIP)) return readReference(bytes, file);
  try {
    return readReference(await unzip(bytes, { maxOutputLength: MAX_REFERENCE_BYTES }), file);
  } catch (error) {
    if (error instanceof RangeError) return readReference(null, file);
    const message = `The file begins like gzip, but cannot be decompressed: ${messageOf(error)}.`;
    return {
      faults: [
        { line: 1, column: 1, path: '', message, remedy: 'Compress it again, or use the plain file.' },
      ],
    };
  }
}
