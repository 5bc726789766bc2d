/** The six figures with which docs/performance.md begins. */
import type { Result } from './result';
import { costsOf } from './scale-out';
import { figure, type Table } from './table';

/** @param resultOf gives the result of a mode */
export function keyFigures(resultOf: (mode: string) => Result): Table {
  const throughput = resultOf('throughput');
  const latency = resultOf('latency');
  const webhook = resultOf('webhook');
  const { workerCores, storeCores, walBytes, storedBytes } = costsOf(throughput);
  const worker = (column: string) => cellOf(throughput, 'worker', column);
  return {
    columns: ['', 'measured', 'section'],
    rows: [
      [
        'events a second that one worker decides, with its Postgres and Kafka on the same two cores',
        `${worker('events/s')}, which is ${worker('x insert-only')} x a worker that only inserts`,
        '[throughput](#throughput)',
      ],
      [
        'time from the send to the committed verdict, at half of the full rate',
        `p50 ${cellOf(latency, '50', 'p50 ms')} ms, p99 ${cellOf(latency, '50', 'p99 ms')} ms`,
        '[latency](#latency)',
      ],
      [
        'CPU an event',
        `${figure(workerCores * 1e6, 1)} microseconds of the worker, ${figure(storeCores * 1e6, 1)} of Postgres`,
        '[throughput](#throughput)',
      ],
      [
        'disk an event',
        `${figure(storedBytes)} bytes stored, ${figure(walBytes)} bytes of WAL`,
        '[throughput](#throughput)',
      ],
      ['resident memory of a worker at full load', `${worker('RSS MiB')} MiB`, '[throughput](#throughput)'],
      [
        'events a second by the webhook, with 32 senders',
        `${cellOf(webhook, '1', 'events/s')} with one event a request, ${cellOf(webhook, '100', 'events/s')} with 100`,
        '[the webhook](#the-webhook)',
      ],
    ],
    notes: [],
  };
}

/** @throws if the table has no such row or column */
export function cellOf({ name, table }: Result, row: string, column: string): string {
  const cell = table.rows.find(([first]) => first === row)?.[table.columns.indexOf(column)];
  if (cell === undefined) throw new Error(`the table of ${name} has no ${column} of ${row}`);
  return cell;
}
