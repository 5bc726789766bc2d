/** The log lines of kafkajs. */
import { type LogEntry, logLevel } from 'kafkajs';
import pino from 'pino';
import { makeClientLog } from '../../../../src/kafka/client/client-log';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

const entry = (message: string, more: Partial<LogEntry> = {}): LogEntry => ({
  namespace: 'Connection',
  level: logLevel.ERROR,
  label: 'ERROR',
  log: { timestamp: new Date().toISOString(), message },
  ...more,
});

function aLog() {
  const lines: unknown[] = [];
  const write = (line: string) => {
    const { level, msg, suppressed } = JSON.parse(line);
    lines.push([pino.levels.labels[level], msg, suppressed]);
  };
  return { lines, log: makeClientLog(pino({ level: 'debug' }, { write })) };
}

test('an equal line comes once a minute, with the number of those between', () => {
  const { lines, log } = aLog();
  for (let second = 0; second < 61; second++) {
    log(entry('cannot connect to kafka-0'));
    log(entry('cannot connect to kafka-1'));
    jest.advanceTimersByTime(1_000);
  }
  expect(lines).toEqual([
    ['warn', 'cannot connect to kafka-0', 0],
    ['warn', 'cannot connect to kafka-1', 0],
    ['warn', 'cannot connect to kafka-0', 59],
    ['warn', 'cannot connect to kafka-1', 59],
  ]);
});

test('lines of the level INFO are for debugging', () => {
  const { lines, log } = aLog();
  log(entry('paused', { level: logLevel.INFO }));
  expect(lines).toEqual([['debug', 'paused', undefined]]);
});
