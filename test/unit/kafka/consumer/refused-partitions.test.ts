/** Partitions that a broker does not let us read: when fetches retry them, and the log lines about them. */
import pino from 'pino';
import { RefusedPartitions } from '../../../../src/kafka/consumer/assigned-partitions';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const NOT_ALLOWED = new Error('not allowed');
const of = (partition: number, topic = 't') => ({ topic, partition });

function setUp() {
  let now = 0;
  const out = new Set<string>();
  const lines: string[] = [];
  const changes: string[] = [];
  const nameOf = ({ topic, partitions = [] }: { topic: string; partitions?: number[] }) =>
    `${topic}/${partitions}`;
  const refused = new RefusedPartitions(
    {
      pause(all) {
        for (const each of all) out.add(nameOf(each));
      },
      resume(all) {
        for (const each of all) out.delete(nameOf(each));
      },
    },
    { now: () => now },
    pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line).msg) }),
    ({ topic, partition }, because) => changes.push(`${topic}/${partition} ${because}`),
  );
  return {
    refused,
    out,
    lines,
    changes,
    /** Begins a fetch after this time. */
    fetchAfter(ms: number) {
      now += ms;
      refused.onFetchStart();
      return [...out];
    },
  };
}

it('refused partitions are retried after 1, 2, 4 ... 30 s, and at most every 30 s', () => {
  const { refused, fetchAfter, changes } = setUp();
  const waits: number[] = [];
  for (let tries = 0; tries < 7; tries++) {
    refused.refuse(of(0), NOT_ALLOWED);
    let seconds = 0;
    for (fetchAfter(0); fetchAfter(SECOND).length > 0; ) seconds++;
    waits.push(seconds + 1);
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 30, 30]);
  expect(changes).toEqual(['t/0 not allowed']);
});

it('one line a topic is logged, again for another reason and after ten minutes, and at recovery', () => {
  const { refused, lines, changes, fetchAfter } = setUp();
  const refusal = 'cannot read a topic, retrying; other topics continue';
  refused.refuse(of(0), NOT_ALLOWED);
  refused.refuse(of(1), NOT_ALLOWED);
  refused.refuse(of(0), NOT_ALLOWED);
  expect(lines.splice(0)).toEqual([refusal]);
  refused.refuse(of(0), new Error('its disk is gone'));
  expect(lines.splice(0)).toEqual([refusal]);
  fetchAfter(10 * MINUTE);
  refused.refuse(of(0), new Error('its disk is gone'));
  expect(lines.splice(0)).toEqual([refusal]);
  refused.onAnswered(of(7, 'another'));
  refused.onAnswered(of(1));
  expect(lines).toEqual([]);
  refused.onAnswered(of(0));
  refused.onAnswered(of(0));
  expect(lines).toEqual(['topic is readable again']);
  expect(changes).toEqual(['t/0 not allowed', 't/1 not allowed', 't/1 null', 't/0 null']);
});

it('full partitions stay paused, and refused ones are not resumed', () => {
  const { refused, out, fetchAfter } = setUp();
  refused.pause(of(0));
  refused.refuse(of(0), NOT_ALLOWED);
  refused.refuse(of(1), NOT_ALLOWED);
  expect(fetchAfter(0).sort()).toEqual(['t/0', 't/1']);
  refused.resume(of(1));
  expect([...out].sort()).toEqual(['t/0', 't/1']);
  expect(fetchAfter(SECOND)).toEqual(['t/0']);
  refused.resume(of(0));
  expect([...out]).toEqual([]);
});

it('refused partitions are retried at once after a rebalance', () => {
  const { refused, out, fetchAfter } = setUp();
  refused.pause(of(2));
  refused.refuse(of(0), NOT_ALLOWED);
  fetchAfter(0);
  // The membership does the same: it resumes all its partitions.
  out.clear();
  refused.onAssigned();
  expect(fetchAfter(0)).toEqual([]);
  refused.resume(of(2));
  refused.refuse(of(0), NOT_ALLOWED);
  expect(fetchAfter(0)).toEqual(['t/0']);
});

it('refused partitions are retried at once where another broker answers without them', () => {
  const { refused, fetchAfter } = setUp();
  refused.refuse(of(0), NOT_ALLOWED);
  refused.refuse(of(1), NOT_ALLOWED);
  refused.pause(of(1));
  expect(fetchAfter(0)).toEqual(['t/1', 't/0']);
  refused.onAnswered(of(0));
  refused.onAnswered(of(1));
  expect(fetchAfter(0)).toEqual(['t/1']);
  refused.resume(of(1));
  expect(fetchAfter(0)).toEqual([]);
});
