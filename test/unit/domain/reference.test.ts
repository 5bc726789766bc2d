/** Reference data compiled for judging, and the connection that a record belongs to (C1-C5). */

import { CURRENCIES } from '../../../src/domain/event/money';
import { claim, feedIdOf } from '../../../src/domain/reference';
import { aBrand, aDocument, anOperator, aReference } from '../../support/builders';

describe('a topic that one connection names [C4]', () => {
  const reference = aReference();

  it('belongs to that connection, for any claim of its records', () => {
    for (const claims of [[], ['acme-stream'], ['somebody'], ['a', 'b']])
      expect(claim(reference, 'promo.event.v1', claims)?.id).toBe('acme-stream');
  });

  it('a topic without a connection has no owner [S4]', () => {
    for (const claims of [[], ['acme-stream']]) expect(claim(reference, 'another', claims)).toBeUndefined();
  });
});

describe('on a topic of several connections, the record names its connection [C5]', () => {
  const shared = (id: string, operatorId: string) =>
    anOperator({
      id: operatorId,
      connections: [
        { id, transport: 'kafka', topic: 'shared' },
        { id: `${id}-own`, transport: 'kafka', topic: `${id}-own` },
      ],
    });
  const reference = aReference(aDocument(shared('a', 'acme'), shared('b', 'borealis')));

  it.each([
    ['one of them', ['a'], 'a'],
    ['the other', ['b'], 'b'],
    ['the same one twice', ['b', 'b'], 'b'],
    ['the same one three times', ['b', 'b', 'b'], 'b'],
    ['nobody', [], undefined],
    ['two', ['a', 'b'], undefined],
    ['two, the last a repetition', ['a', 'b', 'a'], undefined],
    ['two, one of them unknown', ['a', 'x'], undefined],
    ['an unknown one', ['x'], undefined],
    ['one of another topic', ['a-own'], undefined],
    ['one in other letters', ['A'], undefined],
    ['one with a blank', ['a '], undefined],
    ['an empty name', [''], undefined],
  ])('%s', (_, claims, expected) => {
    expect(claim(reference, 'shared', claims)?.id).toBe(expected);
  });
});

describe('feeds [C3]', () => {
  it("an operator's own feed has the operator's name, another feed has it as a prefix", () => {
    expect(feedIdOf('acme', undefined)).toBe('acme');
    expect(feedIdOf('acme', 'live')).toBe('acme/live');
  });

  it("all connections of an operator share the operator's feed, unless one names another feed", () => {
    const connections = [
      { id: 'stream', transport: 'kafka', topic: 't' },
      { id: 'hook', transport: 'webhook' },
      { id: 'live', transport: 'kafka', topic: 'l', feed: 'live' },
    ] as const;
    const other = anOperator({
      id: 'borealis',
      connections: [{ id: 'b', transport: 'kafka', topic: 'b', feed: 'live' }],
    });
    const { connections: compiled } = aReference(aDocument(anOperator({ connections }), other));
    const feedOf = (id: string) => compiled.get(id)?.feedNo;
    expect(feedOf('hook')).toBe(feedOf('stream'));
    expect(feedOf('live')).not.toBe(feedOf('stream'));
    expect(feedOf('b')).not.toBe(feedOf('live'));
    expect([...compiled.values()].map(({ feedId }) => feedId)).toEqual([
      'acme',
      'acme',
      'acme/live',
      'borealis/live',
    ]);
  });
});

describe('a document is compiled [C1] [C2]', () => {
  const document = aDocument(
    anOperator({
      active: false,
      connections: [
        { id: 'several', transport: 'kafka', topic: 't' },
        { id: 'solo', transport: 'kafka', topic: 'solo', brand: 'main' },
        { id: 'hook', transport: 'webhook' },
      ],
      brands: [
        aBrand({ games: { deny: ['g9'], allow: ['g1'] }, minBet: { EUR: '0.10', btc: '0.00001' } }),
        aBrand({ id: 'plain', active: false }),
      ],
      catalogue: [
        { id: 'g1', active: true },
        { id: 'g2', active: false },
      ],
    }),
  );
  const reference = aReference(document);
  const [several, solo, hook] = ['several', 'solo', 'hook'].map((id) => reference.connections.get(id));

  it('a connection has its operator, transport, topic, and its only brand', () => {
    expect(several).toMatchObject({ id: 'several', transport: 'kafka', topic: 't', feedId: 'acme' });
    expect(several?.onlyBrand).toBeUndefined();
    expect(solo?.onlyBrand).toBe(solo?.operator.brands.get('main'));
    expect(hook).toMatchObject({ transport: 'webhook', topic: undefined });
    expect([...reference.topics.keys()]).toStrictEqual(['t', 'solo']);
    expect(reference.version).toBe(1);
    expect(several?.operator).toBe(hook?.operator);
    expect(several?.operator).toMatchObject({ id: 'acme', active: false });
  });

  it('a brand has its games and its minimum in minor units', () => {
    const eur = CURRENCIES.find(({ code }) => code === 'EUR')!;
    const btc = CURRENCIES.find(({ code }) => code === 'BTC')!;
    const main = several?.operator.brands.get('main');
    expect(main).toMatchObject({ id: 'main', active: true, deny: new Set(['g9']), allow: new Set(['g1']) });
    expect(main?.minBet).toEqual(
      new Map([
        [eur, 10n],
        [btc, 1000n],
      ]),
    );
    const plain = several?.operator.brands.get('plain');
    expect(plain).toMatchObject({ active: false, deny: new Set(), minBet: new Map() });
    expect(plain?.allow).toBeUndefined();
    expect(several?.operator.catalogue).toEqual(
      new Map([
        ['g1', true],
        ['g2', false],
      ]),
    );
  });

  it('a stored connection whose brand is not registered is an error', () => {
    const connections = [{ id: 'stream', transport: 'kafka' as const, topic: 't', brand: 'gone' }];
    expect(() => aReference(aDocument(anOperator({ connections, brands: [aBrand()] })))).toThrow(
      'connection stream was stored although its brand gone is not registered',
    );
  });

  it.each([
    ['XXX', '1'],
    ['EUR', '0.001'],
    ['EUR', 'x'],
  ])('a stored minimum that is not valid (%s %s) is an error', (code, amount) => {
    const broken = aDocument(anOperator({ brands: [aBrand({ minBet: { [code]: amount } })] }));
    expect(() => aReference(broken)).toThrow(
      `brand main: min_bet ${code} was stored although it is not valid`,
    );
  });
});
