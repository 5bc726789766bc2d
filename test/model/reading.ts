/** How a planned reader reads its partition: batch by batch, and again where a batch stays undecided. */
import { anEnvelope, brief, decidePart, type Writer } from '../support/ledger';
import type { PlannedPartition, PlannedReader } from './plan';

export interface Reading {
  /** The answer to each record, in the order of the answers. */
  readonly answers: { offset: number; answer: string }[];
  undecided: number;
}

const PAUSE_AFTER_UNDECIDED_MS = 5;
/** A hundred times the number of kills of a run: a reader beyond it would stay undecided without end. */
const MOST_UNDECIDED = 2_000;

/** The offset that the readers of a partition have reached. */
export interface Progress {
  offset: number;
}

/**
 * Reads to the end of the partition. No reader begins beyond the decided records: an offset is committed only
 * after its record.
 */
export async function read(
  writer: Writer,
  { topic, partition, records }: PlannedPartition,
  { from, sizes, pauseMs }: PlannedReader,
  progress: Progress = { offset: 0 },
): Promise<Reading> {
  while (progress.offset < from) await pause(2);
  const reading: Reading = { answers: [], undecided: 0 };
  const envelopes = records.map(({ content, claims }, offset) => anEnvelope(content, offset, claims));
  let offset = from;
  for (let batch = 0; offset < envelopes.length; batch++) {
    const size = sizes[batch % sizes.length] ?? 1;
    const { answers, undecided } = await decidePart(
      writer.intake,
      { topic, partition },
      envelopes.slice(offset, offset + size),
    );
    for (const answer of answers) {
      reading.answers.push({ offset: answer.envelope.offset, answer: brief(answer) });
    }
    offset += answers.length;
    progress.offset = Math.max(progress.offset, offset);
    if (undecided !== null && ++reading.undecided > MOST_UNDECIDED) throw undecided;
    await pause(undecided === null ? pauseMs : PAUSE_AFTER_UNDECIDED_MS);
  }
  return reading;
}

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
