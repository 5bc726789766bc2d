/** Senders of Avro: events of the published schema are decided as the same events in JSON. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../dev/servers/download';
import { isObject } from '../../src/lib/json';
import { aBet, aDeposit, aLogin, bytesOf, without } from '../support/builders';
import { produce, readTopic } from '../support/kafka';
import { aRefund, aSettled, aWin } from '../support/ledger';
import { schemaRegistryUrl } from '../support/servers';
import { verdictOf } from '../support/webhook';
import { killWorkers } from '../support/worker';
import { TestRegistry } from './registry';
import { inWorld } from './world';

afterEach(killWorkers);

const AVSC = join(projectRoot, 'schemas', 'promo.event.v1.avsc');

/** By event_id: an event that the schema can write, and its first verdict. */
const EVENTS: Readonly<Record<string, readonly [event: Record<string, unknown>, verdict: string]>> = {
  bet: [aBet({ round_id: 'r-1', amount: '10.50' }), 'accepted'],
  'no game': [without(aBet({ round_id: 'r-2' }), 'game'), 'accepted'],
  'game without an id': [{ ...aBet({ round_id: 'r-3' }), game: {} }, 'accepted'],
  win: [aWin({ round_id: 'r-1', amount: '0.01' }), 'accepted'],
  settled: [aSettled({ round_id: 'r-1', amount: '10.50' }), 'accepted'],
  refund: [aRefund({ round_id: 'r-2' }), 'accepted'],
  'beyond 2^53': [aDeposit({ amount: '92233720368547758.07', currency: 'EUR' }), 'accepted'],
  'decimals of a coin': [aDeposit({ amount: '9.000000000000000001', currency: 'ETH' }), 'accepted'],
  'lower case': [aDeposit({ currency: 'eur' }), 'accepted'],
  login: [aLogin(), 'accepted'],
  'another zone': [aLogin({ occurred_at: '2026-11-21T13:00:00.123456+01:00' }), 'accepted'],
  'not ASCII': [aLogin({ player_ref: 'Zoë-\u{1F3B2}' }), 'accepted'],
  'a comma': [aDeposit({ amount: '1,50' }), 'rejected/bad_amount'],
  'no brand': [without(aLogin(), 'brand'), 'rejected/no_brand'],
  'no such day': [aLogin({ occurred_at: '2026-02-30T12:00:00Z' }), 'rejected/malformed'],
  'another kind': [aLogin({ kind: 'bonus' }), 'rejected/op_unknown'],
};

test('an event of the published schema of Avro is the event in JSON: amounts, times, and fields that are missing [S2] [D1]', () =>
  inWorld({ topics: { main: 1, framed: 1, verdicts: 1 } }, async (world) => {
    const registry = new TestRegistry(schemaRegistryUrl());
    const id = await registry.register(readFileSync(AVSC, 'utf8'));
    const events = Object.entries(EVENTS).map(([event_id, [event]]) => ({ ...event, event_id }));
    const settings = { SCHEMA_REGISTRY_URL: schemaRegistryUrl(), VERDICT_TOPIC: world.topics.verdicts };
    const verdictsFrom = async (topic: string) => {
      await world.drain(settings);
      const messages = (await readTopic(world.topics.verdicts)).map(({ value }): unknown =>
        JSON.parse(value?.toString() ?? ''),
      );
      const own = messages.filter(
        (message) => isObject(message) && isObject(message.source) && message.source.topic === topic,
      );
      return Object.fromEntries(
        own.map((message) => [isObject(message) ? String(message.event_id) : '', verdictOf(message)]),
      );
    };
    const first = Object.entries(EVENTS).map(([name, [, verdict]]) => [name, verdict]);
    await produce(
      world.topics.main,
      events.map((event) => ({ value: bytesOf(event) })),
    );
    expect(await verdictsFrom(world.topics.main)).toEqual(Object.fromEntries(first));
    await produce(
      world.topics.framed,
      await Promise.all(events.map(async (event) => ({ value: await registry.encode(id, event) }))),
    );
    // A duplicate whose content differs would say so.
    expect(await verdictsFrom(world.topics.framed)).toEqual(
      Object.fromEntries(first.map(([name, verdict]) => [name, `duplicate of ${verdict}`])),
    );
  }));

const FIELDS = ['spec', 'event_id', 'brand', 'player_ref', 'kind', 'occurred_at', 'currency'];
/** Fields of a sender's own schema, and the verdict on an event that it writes. */
const OWN_TYPES: Readonly<
  Record<string, readonly [field: string, type: unknown, value: unknown, verdict: string]>
> = {
  decimal: [
    ...(['amount', { type: 'bytes', logicalType: 'decimal', precision: 9, scale: 2 }] as const),
    ...([Buffer.from([4]), 'rejected/bad_amount'] as const),
  ],
  double: ['amount', 'double', 10.5, 'rejected/bad_amount'],
  millis: [
    ...(['occurred_at', { type: 'long', logicalType: 'timestamp-millis' }] as const),
    ...([1_795_262_400_000, 'rejected/malformed'] as const),
  ],
  'no union': ['brand', 'null', null, 'rejected/malformed'],
  'an enum': ['kind', { type: 'enum', name: 'Kind', symbols: ['login', 'deposit'] }, 'deposit', 'accepted'],
};

test('the types of a schema of its own are read as docs/formats.md says [S2]', () =>
  inWorld({ topics: { main: 1 } }, async (world) => {
    const registry = new TestRegistry(schemaRegistryUrl());
    const records = Object.entries(OWN_TYPES).map(async ([name, [field, type, value]], index) => {
      const fields = [...new Set([...FIELDS, 'amount'])].map((each) => ({
        name: each,
        type: each === field ? type : 'string',
      }));
      const schema = { type: 'record', name: `Own${index}`, namespace: 'promo', fields };
      const id = await registry.register(JSON.stringify(schema));
      return {
        value: await registry.encode(id, { ...aDeposit({ event_id: name }), [field]: value }),
      };
    });
    await produce(world.topics.main, await Promise.all(records));
    await world.drain({ SCHEMA_REGISTRY_URL: schemaRegistryUrl() });
    expect(await world.verdicts()).toEqual(
      Object.fromEntries(Object.entries(OWN_TYPES).map(([name, [, , , verdict]]) => [name, verdict])),
    );
  }));
