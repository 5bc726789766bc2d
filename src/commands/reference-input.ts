/** Reference data from a file, or from standard input for `-`. */
import { NEVER } from '../clock';
import { MAX_REFERENCE_BYTES, type ParsedReference, readReference } from '../reference-file';
import { readUpTo } from '../transports/limited';
import { openInput } from './lines';

/** Reads no more of it than reference data may have. @throws where it cannot be read */
export async function readReferenceInput(file: string): Promise<ParsedReference> {
  return readReference(await readUpTo(openInput(file, NEVER), MAX_REFERENCE_BYTES), file);
}
