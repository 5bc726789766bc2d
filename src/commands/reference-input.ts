/** Reference data from a file, or from standard input for `-`. */
import { MAX_REFERENCE_BYTES, type ParsedReference, readReference } from '../reference-file';
import { readLimited } from '../transports/limited';
import { openInput } from './lines';

/** Reads no more of it than reference data may have. @throws where it cannot be read */
export async function readReferenceInput(file: string): Promise<ParsedReference> {
  const input = openInput(file, new AbortController().signal);
  const bytes = await readLimited(file, input, MAX_REFERENCE_BYTES).catch((error: unknown) => {
    if (error instanceof RangeError) return null;
    throw error;
  });
  return readReference(bytes, file);
}
