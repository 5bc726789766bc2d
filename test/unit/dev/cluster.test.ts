/** Input and output of `make cluster-test`, and the agreement of its files. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { imagesOf } from '../../../dev/cluster/images';
import { historyOf, type PodState, readState } from '../../../dev/cluster/pods';
import { reportOf } from '../../../dev/cluster/report';
import { withSystem } from '../../../dev/containers/debian';
import { projectRoot } from '../../../dev/servers/download';
import { isObject } from '../../../src/lib/json';

describe('a line of the watch', () => {
  test('describes a pod', () => {
    expect(readState('MODIFIED|w-1|False|2|2026-11-22T04:00:00Z|137|OOMKilled')).toEqual({
      name: 'w-1',
      isReady: false,
      restarts: 2,
      isEnding: true,
      isGone: false,
      exitCode: 137,
      endedBefore: 'OOMKilled',
    });
    expect(readState('ADDED|w-1|True|0|||')).toMatchObject({
      isReady: true,
      isEnding: false,
      exitCode: undefined,
    });
    expect(readState('DELETED|w-1|False|0|2026-11-22T04:00:00Z|0|')).toMatchObject({
      isGone: true,
      exitCode: 0,
    });
  });

  test('a pod that is not scheduled yet has no fields', () => {
    expect(readState('ADDED|w-1|||||')).toMatchObject({ isReady: false, restarts: 0 });
  });

  test('an incomplete line has no pod', () => {
    expect(readState('')).toBeUndefined();
    expect(readState('ADDED')).toBeUndefined();
  });
});

describe('a history of pods', () => {
  const state = (name: string, more: Partial<PodState> = {}): PodState => ({
    name,
    isReady: true,
    restarts: 0,
    isEnding: false,
    isGone: false,
    exitCode: undefined,
    endedBefore: '',
    ...more,
  });
  const both = [state('a'), state('b')];

  test('a correct rollout starts new pods first', () => {
    const history = historyOf(
      [
        ...both,
        state('c', { isReady: false }),
        state('c'),
        state('a', { isEnding: true }),
        state('a', { isEnding: true, isReady: false, exitCode: 0 }),
        state('a', { isGone: true }),
      ],
      2,
    );
    expect(history).toEqual({ leastReady: 2, flapped: [], restarts: 0, exitCodes: new Map([['a', 0]]) });
  });

  test('a terminating pod is not ready', () => {
    expect(historyOf([...both, state('a', { isEnding: true }), state('c')], 2).leastReady).toBe(1);
  });

  test('pods that start in a row at the beginning do not count', () => {
    expect(historyOf(both, 2).leastReady).toBe(2);
    expect(historyOf([state('a')], 2).leastReady).toBe(0);
  });

  test('a pod that is not ready for a moment has flapped, and a restarting pod has not', () => {
    expect(historyOf([...both, state('a', { isReady: false }), state('a')], 2)).toMatchObject({
      flapped: ['a'],
      leastReady: 1,
      restarts: 0,
    });
    const killed = state('a', { isReady: false, exitCode: 137 });
    const anew = state('a', { restarts: 1, endedBefore: 'OOMKilled' });
    expect(historyOf([...both, killed, anew], 2)).toMatchObject({ flapped: [], restarts: 1 });
  });
});

test('the report has a row for each step, and the counts last', () => {
  const lines = reportOf([
    { name: 'install', result: 'passed', details: '2 workers', seconds: 21.44 },
    { name: 'drain', result: 'skipped', details: 'it needs two nodes\nmore', seconds: 0 },
  ]);
  expect(lines).toEqual([
    'step     result     time  measured',
    'install  passed   21.4 s  2 workers',
    'drain    skipped   0.0 s  it needs two nodes',
    '',
    '1 passed, 0 failed, 1 skipped',
  ]);
  expect(reportOf([]).at(-1)).toBe('0 passed, 0 failed');
});

test('the images are built, unless a cluster and an image are given', () => {
  const ours = imagesOf({ IMAGE: 'given:1' });
  expect(ours.worker).not.toBe('given:1');
  expect(ours.upgrade).not.toBe(ours.worker);
  expect(imagesOf({ IMAGE: 'given:1', KUBECONFIG: 'there' })).toMatchObject({
    worker: 'given:1',
    upgrade: 'given:1',
  });
  expect(imagesOf({ STACK_KAFKA_IMAGE: 'mirror/kafka:4' }).kafka).toBe('mirror/kafka:4');
});

test('programs of the system are found after those of the PATH', () => {
  expect(withSystem({ PATH: '/a:/b' }).PATH).toMatch(/^\/a:\/b:.*\/usr\/sbin/);
});

test('every image of the servers is inserted by its name, and no pod requests more than the namespace allows', () => {
  const text = readFileSync(join(projectRoot, 'dev', 'cluster', 'servers.yaml'), 'utf8');
  const objects = parseAllDocuments(text).map((document): unknown => document.toJS());
  const images = objects.flatMap((object) => {
    if (!isObject(object) || object.kind !== 'Pod') return [];
    return [...JSON.stringify(object).matchAll(/"image":"([^"]*)"/g)].map(([, image]) => image);
  });
  expect(images).toEqual(['KAFKA_IMAGE', 'POSTGRES_IMAGE', 'WORKER_IMAGE']);
});
