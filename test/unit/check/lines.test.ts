/** A file of events as lines, or as one JSON document. */
import {
  isBatchOfEvents,
  type Line,
  MAX_LINE_BYTES,
  readLines,
  withoutDocument,
} from '../../../src/check/lines';
import { aBet } from '../../support/builders';

const lines = (...values: unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`).join('');

describe('a document over several lines, for a reader of lines', () => {
  const event = aBet();
  const refuse = (from: number, to: number) => new Error(`${from}-${to}`);
  /** The numbers of the lines before each block, and the result. */
  async function passed(
    ...blocks: string[]
  ): Promise<{ numbers: number[]; error: string; heldAt: number[] }> {
    const numbers: number[] = [];
    const heldAt: number[] = [];
    async function* source() {
      for (const block of blocks) {
        heldAt.push(numbers.length);
        yield Buffer.from(block);
      }
    }
    try {
      for await (const some of withoutDocument(readLines(source()), refuse))
        numbers.push(...some.map(({ number }) => number));
      return { numbers, error: '', heldAt };
    } catch (error) {
      return { numbers, error: error instanceof Error ? error.message : 'no error', heldAt };
    }
  }

  test.each([
    [
      'an event',
      JSON.stringify(event, null, 2),
      `2-${JSON.stringify(event, null, 2).split('\n').length + 1}`,
    ],
    ['an array of one event', `[\n${JSON.stringify(event)}\n]`, '2-4'],
    ['a batch', `{"note": "}]\\"",\n\n"events": [\n${JSON.stringify(event)},\n{}]}`, '2-6'],
    ['two events in a row', '{\n}\n{\n}', '2-3'],
    ['an array behind a byte order mark', `\uFEFF[\n${JSON.stringify(event)}\n]`, '2-4'],
    ['an array that never ends', `[\n${`"${'x'.repeat(1024 * 1024)}",\n`.repeat(9)}`, '2-10'],
  ])('%s is refused, and none of its lines is returned', async (_, text, expected) => {
    expect(await passed(`\n${text}\n`)).toMatchObject({ numbers: [], error: expected });
  });

  test.each([
    ['events', lines(event, event), 2],
    ['a batch in one line', lines({ events: [event] }, event), 2],
    ['half an event, and whole events', `{"half":\n${lines(event, event)}`, 3],
    ['an array that begins and never ends, and events', `[\n${lines(event, event)}`, 3],
    ['a string that is not closed', `{"a\n":1}`, 2],
    ['brackets that do not match', '{"a":[\n]]}', 2],
    ['a document with a mistake in it', '{\n"a": b\n}', 3],
    ['half an event alone', '{"half":', 1],
    ['text', 'x\n{\n}', 3],
  ])('%s: no document, and every line is returned', async (_, text, count) => {
    expect(await passed(text)).toMatchObject({
      numbers: Array.from({ length: count }, (_, index) => index + 1),
      error: '',
    });
  });

  test('no line of a document with a line that is too long for a record is returned', async () => {
    async function* blocks() {
      yield [{ number: 1, bytes: Buffer.from('[') }];
      yield [{ number: 2, bytes: null }];
    }
    const handedOver: unknown[] = [];
    const all = async () => {
      for await (const some of withoutDocument(blocks(), refuse)) handedOver.push(...some);
    };
    await expect(all()).rejects.toThrow('1-2');
    expect(handedOver).toEqual([]);
  });

  test('lines are returned as they arrive', async () => {
    const one = lines(event);
    expect(await passed(`${one}\n`, `${one}\n`, one)).toMatchObject({ heldAt: [0, 1, 2] });
    expect(await passed('{"half":\n', `${one}\n`, `${one}\n`, one)).toMatchObject({ heldAt: [0, 0, 0, 3] });
  });

  test.each<[string, unknown, boolean]>([
    ['an array of events', [event], true],
    ['an array without events', [1, 'a'], false],
    ['a batch', { spec: 'promo.event.v1', events: [event] }, true],
    ['an event with the key of a batch', { ...event, events: [event] }, false],
    ['an event without an id', { ...event, event_id: undefined }, false],
    ['a number at that key', { events: 5 }, false],
  ])('%s', (_, json, expected) => {
    expect(isBatchOfEvents(JSON.parse(JSON.stringify(json)))).toBe(expected);
  });
});

describe('lines', () => {
  const split = async (...chunks: (string | Buffer)[]): Promise<Line[]> => {
    const found: Line[] = [];
    async function* source() {
      for (const chunk of chunks) yield Buffer.from(chunk);
    }
    for await (const some of readLines(source())) found.push(...some);
    return found;
  };
  const texts = (found: readonly Line[]) =>
    found.map(({ number, bytes }) => [number, bytes?.toString('latin1')]);

  test('are the same for every division of their bytes', async () => {
    const text = '{"a":1}\n\n \t\r\n{"b":"\u00e9"}\r\n\nlast';
    const whole = texts(await split(text));
    expect(whole.map(([number]) => number)).toEqual([1, 4, 6]);
    for (const size of [1, 2, 3, 7]) {
      const bytes = Buffer.from(text);
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size),
      );
      expect(texts(await split(...pieces))).toEqual(whole);
    }
  });

  test('keep every byte except the line feed', async () => {
    const found = await split(Buffer.from([0xef, 0xbb, 0xbf, 0x00, 0xff, 0x0d, 0x0a]));
    expect(found.map(({ bytes }) => bytes)).toEqual([Buffer.from([0xef, 0xbb, 0xbf, 0x00, 0xff, 0x0d])]);
  });

  test('that are too long for a record are not kept, and the next line is read', async () => {
    const half = Buffer.alloc(MAX_LINE_BYTES / 2 + 1, 'x');
    const found = await split(half, half, '\nnext');
    expect(found[0]).toEqual({ number: 1, bytes: null });
    expect(texts(found.slice(1))).toEqual([[2, 'next']]);
  });
});
