/** Lines of a file of attributions: one JSON object each. */
import { isUtf8 } from 'node:buffer';
import type { Line } from '../../check/lines';
import { type AttributionFault, readAttribution } from '../../domain/attribution';
import { whyUnreadable } from '../../domain/event/unreadable';
import { parseJson } from '../../lib/json';
import { inOneLine } from '../../lib/printable';

/** Reads a line of a file of attributions. @param operator see readAttribution */
export function readAttributionLine({ bytes }: Line, operator: string): ReturnType<typeof readAttribution> {
  const json = bytes !== null && isUtf8(bytes) ? parseJson(bytes.toString('utf8')) : undefined;
  if (json !== undefined) return readAttribution(json, operator);
  const problem = bytes === null ? 'is longer than 64 MiB' : whyUnreadable(bytes);
  return { faults: [{ field: '', problem, remedy: 'Write one JSON object per line' }] };
}

/** A fault for people. It names no player. */
export function describeAttributionFault({ field, problem, remedy }: AttributionFault): string {
  return `InvalidArgument: ${field === '' ? 'the line' : inOneLine(field)} ${problem}. ${remedy}.`.replace(
    /[?][.]$/,
    '?',
  );
}
