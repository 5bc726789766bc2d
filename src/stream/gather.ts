/** The first stage of the pipeline: takes records of lanes for one batch, up to its limits. */

import type { Envelope } from '../intake/delivery';
import { asError } from '../lib/errors';
import type { Lane } from './lane';
import type { BatchSize, LanePart } from './part';

/** A batch takes no further record once it holds this many bytes. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/**
 * A batch opens no further chunk once its lanes have this many decompressed bytes: each record keeps its
 * whole chunk in memory. A lane may have the chunks of two batches.
 */
const MAX_DECOMPRESSED_BYTES = 2 * MAX_BATCH_BYTES;

/**
 * Where rounds are shared, a batch is gathered in this many runs of records, or in LEAST_RUNS_OF_A_LANE for
 * each lane. After each run, the next run is of the lane that is furthest behind in time, so that a batch
 * holds whole rounds. Shorter runs split fewer rounds, and each run costs some microseconds.
 */
const RUNS_OF_A_BATCH = 128;
const LEAST_RUNS_OF_A_LANE = 4;

/** A part with the records that are gathered so far. */
export interface GatheredPart {
  readonly lane: Lane;
  readonly part: LanePart;
  readonly envelopes: Envelope[];
  /** Why the lane has no further record for the batch; null where it has some, or is drained. */
  failure: Error | null;
  /** Timestamp of its last record. */
  readUpTo: number;
  /** The batch takes no further record of the lane. */
  isDrained: boolean;
}

/**
 * Takes records of the lanes until the batch is full.
 *
 * @param lanes in the order of their turns
 * @param areRoundsShared takes runs of records, each of the lane that is furthest behind in time; otherwise
 * all records of one lane after the other
 * @returns the lanes that take part in the batch, even those that turn out to have no record
 */
export async function gather(
  lanes: readonly Lane[],
  areRoundsShared: boolean,
  batchEvents: number,
): Promise<GatheredPart[]> {
  const room: BatchSize = { events: batchEvents, bytes: MAX_BATCH_BYTES };
  const runs = areRoundsShared ? Math.max(RUNS_OF_A_BATCH, lanes.length * LEAST_RUNS_OF_A_LANE) : 1;
  const run: BatchSize = { events: Math.ceil(room.events / runs), bytes: Math.ceil(room.bytes / runs) };
  const gathered: GatheredPart[] = [];
  let decompressed = 0;
  for (const lane of lanes) {
    if (room.events <= 0 || room.bytes <= 0 || decompressed >= MAX_DECOMPRESSED_BYTES) break;
    // Another batch may have taken its records meanwhile.
    if (!lane.isReady && lane.bytesAhead === 0) continue;
    const each: GatheredPart = {
      ...{ lane, part: lane.begin(), envelopes: [] },
      ...{ failure: null, readUpTo: 0, isDrained: false },
    };
    if (await takeRun(each, run, room, true)) gathered.push(each);
    decompressed += lane.queue.decompressedBytes;
  }
  while (room.events > 0 && room.bytes > 0) {
    const next = furthestBehind(gathered);
    // Further records of the others may belong to rounds that this lane continues in its next part.
    if (next === undefined || next.part.isFull) break;
    const { queue } = next.lane;
    const before = queue.decompressedBytes;
    await takeRun(next, run, room, decompressed < MAX_DECOMPRESSED_BYTES);
    decompressed += queue.decompressedBytes - before;
  }
  return gathered;
}

/** By time. Of lanes at the same time, the one with fewer records. */
function furthestBehind(gathered: readonly GatheredPart[]): GatheredPart | undefined {
  let found: GatheredPart | undefined;
  for (const each of gathered) {
    if (each.isDrained) continue;
    if (
      found === undefined ||
      (each.readUpTo - found.readUpTo || each.envelopes.length - found.envelopes.length) < 0
    )
      found = each;
  }
  return found;
}

/**
 * Takes one run of records.
 *
 * @param mayOpen whether a further chunk of records may be decompressed
 * @returns whether the lane takes part in the batch
 */
async function takeRun(
  gathered: GatheredPart,
  run: BatchSize,
  room: BatchSize,
  mayOpen: boolean,
): Promise<boolean> {
  const { lane, part, envelopes } = gathered;
  const limit = { events: Math.min(run.events, room.events), bytes: Math.min(run.bytes, room.bytes) };
  try {
    const read = await lane.read(part, limit, mayOpen);
    if (read === null) return false;
    envelopes.push(...read.envelopes);
    room.events -= read.envelopes.length;
    room.bytes -= read.bytes;
    gathered.failure = read.failure;
    gathered.readUpTo = Number(envelopes.at(-1)?.timestamp ?? 0);
    const isShort = read.envelopes.length < limit.events && read.bytes < limit.bytes;
    gathered.isDrained = read.failure !== null || (isShort && !part.isFull);
  } catch (error) {
    // The records before these are decided; the next part of the lane meets the error again.
    gathered.isDrained = true;
    if (envelopes.length === 0) part.end({ answers: [], undecided: asError(error) });
    return envelopes.length > 0;
  }
  return true;
}
