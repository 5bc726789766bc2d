/** The output of `check` for files that the tests write. */
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { readEvents } from '../../../../src/check/lines';
import { type CheckOptions, check } from '../../../../src/commands/operators/check';
import { MAX_REFERENCE_BYTES } from '../../../../src/reference-file/reference-file';
import { aBet, aDeposit } from '../../../support/builders';

let directory: string;
let output: string;
let errors: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'check-test-'));
  output = '';
  errors = '';
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += String(text);
    return true;
  });
  jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
    errors += String(text);
    return true;
  });
  jest.spyOn(console, 'error').mockImplementation((text) => {
    errors += `${String(text)}\n`;
  });
});
afterEach(() => {
  jest.restoreAllMocks();
  rmSync(directory, { recursive: true });
});

function file(name: string, content: string | Buffer): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

interface Checked {
  code: number;
  /** The output about the events, without the directory of the file. */
  lines: string[];
  summary: string;
}

async function checked(content: string | Buffer, options: Partial<CheckOptions> = {}): Promise<Checked> {
  output = '';
  const path = file('events', content);
  const code = await check(
    { file: path, json: false, rules: undefined, ...options },
    new AbortController().signal,
  );
  const lines = output.replaceAll(`${directory}/`, '').trimEnd().split('\n');
  return { code, lines: lines.slice(0, -2), summary: lines.at(-2) ?? '' };
}

async function checkedAsJson(content: string, options: Partial<CheckOptions> = {}): Promise<unknown[]> {
  output = '';
  await check(
    { file: file('events', content), json: true, rules: undefined, ...options },
    new AbortController().signal,
  );
  return output
    .trimEnd()
    .split('\n')
    .map((line): unknown => JSON.parse(line));
}

const lines = (...values: unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`).join('');
const aLogin = (event_id: string) => ({
  spec: 'promo.event.v1',
  event_id,
  player_ref: 'p',
  kind: 'login',
  occurred_at: '2026-11-21T12:00:00Z',
});

describe('events', () => {
  test('a file of accepted events is clean', async () => {
    expect(await checked(lines(aBet(), aDeposit()))).toEqual({
      code: 0,
      lines: [],
      summary: 'events: 2 events: 2 accepted, 0 rejected, 0 skipped, 0 duplicate',
    });
  });

  test('every fault of an event is reported with field and remedy, the deciding fault with the verdict', async () => {
    const { code, lines: told } = await checked(lines(aBet(), aBet({ round_id: '', amount: '1.505' })));
    expect(code).toBe(1);
    expect(told).toEqual([
      'events:2: rejected/malformed  /round_id: round_id is empty. Fix the field and send the event with a new event_id.',
      'events:2: also bad_amount  /amount: amount "1.505" has 3 decimals, EUR has 2. Send the exact amount as a decimal string, with a new event_id.',
    ]);
  });

  test('a skipped event is not clean either', async () => {
    const { code, summary } = await checked(lines(aBet({ amount: '0' })));
    expect(code).toBe(1);
    expect(summary).toBe('events: 1 event: 0 accepted, 0 rejected, 1 skipped (1 zero_amount), 0 duplicate');
  });

  test('the output never holds the player', async () => {
    const player_ref = 'SECRET-PLAYER';
    const content = `${lines(
      { ...aBet({ player_ref, event_id: 'same' }), amount: 1 },
      aBet({ player_ref, event_id: 'same' }),
      aBet({ player_ref: `${player_ref}${'x'.repeat(300)}` }),
    )}{"player_ref":"${player_ref}"`;
    await checked(content);
    expect(output + errors).not.toContain(player_ref);
    await checkedAsJson(content);
    expect(output + errors).not.toContain(player_ref);
    const rules = { reference: file('swapped', content), connection: 'c' };
    await checked(content, { rules });
    expect(errors).toContain('not valid YAML');
    expect(output + errors).not.toContain(player_ref);
  });

  test('bytes that are no UTF-8 are judged as they are', async () => {
    const { lines: told } = await checked(
      Buffer.concat([Buffer.from('{"event_id":"a'), Buffer.from([0xff]), Buffer.from('"}\n')]),
    );
    expect(told).toEqual([
      'events:1: rejected/no_idempotency_key  payload: the payload is not valid UTF-8 at byte 14 (0xFF). Fix the payload and send the event again.',
    ]);
  });

  test('--json prints one object per event, also for accepted events', async () => {
    const bet = aBet();
    expect(await checkedAsJson(lines(aLogin('a'), bet, { ...bet, amount: '9' }, 5))).toEqual([
      { line: 1, event_id: 'a', verdict: 'accepted', reason: null, faults: [] },
      { line: 2, event_id: bet.event_id, verdict: 'accepted', reason: null, faults: [] },
      {
        line: 3,
        event_id: bet.event_id,
        verdict: 'duplicate',
        reason: null,
        faults: [],
        first_line: 2,
        content_differs: true,
      },
      {
        line: 4,
        event_id: null,
        verdict: 'rejected',
        reason: 'no_idempotency_key',
        faults: [
          {
            reason: 'no_idempotency_key',
            field: '',
            detail: 'the payload is a number, and must be an object',
          },
        ],
      },
    ]);
    expect(errors).toContain(
      '4 events: 2 accepted, 1 rejected (1 no_idempotency_key), 0 skipped, 1 duplicate',
    );
  });

  test('the output says that stored state is not checked', async () => {
    await checked(lines(aBet()));
    expect(output).toContain(
      'Not checked: brand and game rules (--reference and --connection add them); stored state',
    );
    expect(output).toMatch(/An event that was never sent keeps its event_id\.\n$/);
  });
});

describe('a file that is no text in UTF-8', () => {
  const bet = lines(aBet());
  test.each([
    ['UTF-16 with a mark', Buffer.from(`\uFEFF${bet}`, 'utf16le'), 'iconv -f UTF-16 -t'],
    ['UTF-16 of the other order', Buffer.from(`\uFEFF${bet}`, 'utf16le').swap16(), 'iconv -f UTF-16 -t'],
    ['UTF-16 without a mark', Buffer.from(bet, 'utf16le'), 'iconv -f UTF-16LE -t'],
    ['an array in UTF-16', Buffer.from(`[${bet}]`, 'utf16le').swap16(), 'iconv -f UTF-16BE -t'],
    ['gzip', gzipSync(bet), 'gunzip -c FILE |'],
  ])('is refused once, with the command that converts it: %s', async (_, content, convert) => {
    await expect(checked(content)).rejects.toThrow(`Run: ${convert}`);
    expect(output).toBe('');
  });
});

describe('duplicates', () => {
  test('have the line of the first event, and whether the content differs', async () => {
    const bet = aBet({ amount: '1.5' });
    const same = { ...bet, amount: '1.50', extra: true };
    const { code, lines: told, summary } = await checked(lines(bet, aBet(), same, { ...bet, amount: '2' }));
    expect(code).toBe(1);
    expect(told).toEqual([
      'events:3: duplicate  /event_id: line 1 is the same event. Nothing to do.',
      'events:4: duplicate  /event_id: line 1 has it, with other content. Give each event its own event_id.',
    ]);
    expect(summary).toBe('events: 4 events: 2 accepted, 0 rejected, 0 skipped, 2 duplicate');
  });

  test('a rejected event uses its id up', async () => {
    const rejected = aBet({ amount: 'x' });
    const { lines: told } = await checked(lines(rejected, { ...rejected, amount: '1' }));
    expect(told[1]).toMatch(/^events:2: duplicate {2}\/event_id: line 1 has it, with other content/);
  });

  test('are found among many ids', async () => {
    const many = Array.from({ length: 4_000 }, (_, index) => aLogin(`id-${index % 3_500}`));
    const found = await checkedAsJson(lines(...many));
    const duplicates = found.filter((entry) => JSON.stringify(entry).includes('"duplicate"'));
    expect(duplicates).toHaveLength(500);
    expect(duplicates.at(-1)).toMatchObject({ line: 4_000, first_line: 500, content_differs: false });
  });
});

describe('the form of a file', () => {
  const bad = aBet({ amount: '-1' });

  test('lines, also blank lines and carriage returns', async () => {
    const { lines: told } = await checked(`\n${JSON.stringify(aBet())}\r\n  \n${JSON.stringify(bad)}`);
    expect(told).toEqual([expect.stringMatching(/^events:4: rejected\/bad_amount/)]);
  });

  test.each([
    [
      'an array',
      [aBet(), bad, 5],
      [
        ['3', 'bad_amount'],
        ['4', 'no_idempotency_key'],
      ],
    ],
    ['a batch', { note: ']}', events: [aBet(), bad] }, [['5', 'bad_amount']]],
  ] as const)('%s over several lines', async (_, value, expected) => {
    const events = Array.isArray(value) ? value : 'events' in value ? value.events : [];
    const inner = events.map((event) => `  ${JSON.stringify(event)}`).join(',\n');
    const content = Array.isArray(value)
      ? `[\n${inner}\n]`
      : `{\n "note": "]},\\"",\n "events": [\n${inner}\n]}`;
    const { lines: told } = await checked(content);
    expect(told.map((line) => line.split(/[:/]/).slice(1, 4))).toEqual(
      expected.map(([line, reason]) => [line, ' rejected', expect.stringContaining(reason)]),
    );
  });

  test.each([
    ['one event over several lines', JSON.stringify(bad, null, 2)],
    ['an array in one line', JSON.stringify([bad])],
    ['a batch in one line', JSON.stringify({ events: [bad] })],
    ['a batch whose key is escaped and repeated', `{"events":1,"\\u0065vents":[${JSON.stringify(bad)}]}`],
  ])('%s', async (_, content) => {
    const { lines: told } = await checked(`\n${content}\n\n`);
    expect(told).toEqual([expect.stringMatching(/^events:2: rejected\/bad_amount/)]);
    expect(errors).toMatch(/is one JSON document.*publish sends lines/);
  });

  test('an array with another line behind it is a line without an event', async () => {
    const { lines: told } = await checked(lines([bad], aBet()));
    expect(told).toEqual([
      expect.stringMatching(
        /^events:1: rejected\/no_idempotency_key .*is an array of 1 value, and must be an object/,
      ),
    ]);
  });

  test('a file that is not one document is read by lines, with a message', async () => {
    const { lines: told } = await checked(`{"event_id":\n${lines(aBet())}`);
    expect(told).toEqual([expect.stringMatching(/^events:1: rejected\/no_idempotency_key/)]);
    expect(errors).toContain('is not one JSON document as a whole');
  });

  test('a file that is too long for one document is read by lines, with a message', async () => {
    const said: string[] = [];
    const half = Buffer.alloc(33 * 1024 * 1024, ' ').fill('{"a":1},', 0, 8);
    async function* blocks() {
      yield [{ number: 1, bytes: Buffer.from('[') }];
      for (const number of [2, 3]) yield [{ number, bytes: half }];
    }
    const found: number[] = [];
    for await (const some of readEvents(blocks(), (text) => said.push(text)))
      found.push(...some.map(({ number }) => number));
    expect(found).toEqual([1, 2, 3]);
    expect(said).toEqual(['is too long to be read as one JSON document, so each line is taken for an event']);
  });

  test('a line that is too long for a record makes no document of the other lines', async () => {
    const said: string[] = [];
    async function* blocks() {
      yield [{ number: 1, bytes: Buffer.from('[') }];
      yield [
        { number: 2, bytes: null },
        { number: 3, bytes: Buffer.from(']') },
      ];
    }
    const found: number[] = [];
    for await (const some of readEvents(blocks(), (text) => said.push(text)))
      found.push(...some.map(({ number }) => number));
    expect(found).toEqual([1, 2, 3]);
    expect(said).toEqual([expect.stringContaining('too long')]);
  });

  test('an event with an id and the key of a batch is one event, as for the worker', async () => {
    const { lines: told } = await checked(lines({ event_id: 'b-1', events: [aBet(), aBet()] }));
    expect(told[0]).toMatch(/^events:1: rejected\/malformed /);
  });

  test('a byte order mark does not hide a document', async () => {
    const { lines: told } = await checked(`\uFEFF${JSON.stringify([bad], null, 2)}`);
    expect(told).toEqual([expect.stringMatching(/^events:2: rejected\/bad_amount/)]);
    expect(errors).toContain('is one JSON document');
  });

  test('a byte order mark does not hide one event over several lines', async () => {
    const { lines: told } = await checked(`\uFEFF${JSON.stringify(bad, null, 2)}`);
    expect(told).toEqual([expect.stringMatching(/^events:1: rejected\/bad_amount/)]);
  });

  test('an empty file is clean', async () => {
    expect(await checked('')).toMatchObject({ code: 0, summary: expect.stringContaining('0 events') });
  });
});

describe('with reference data', () => {
  const REFERENCE = `
operators:
  - id: acme
    connections:
      - { id: several, transport: kafka, topic: t, brands: several }
      - { id: solo, transport: webhook, brand: main }
    brands:
      - { id: main, games: { deny: [g9] }, min_bet: { EUR: "0.10" } }
`;
  const withRules = async (connection: string, ...events: unknown[]) => {
    const rules = { reference: file('reference.yaml', REFERENCE), connection };
    const { code, lines: told } = await checked(lines(...events), { rules });
    return [code, ...told.map((line) => / (\S+) /.exec(line)?.[1])];
  };

  test('brand and game rules apply', async () => {
    expect(await withRules('several', aBet())).toEqual([0]);
    expect(await withRules('several', aBet({ brand: 'other' }))).toEqual([1, 'rejected/brand_unmapped']);
    expect(await withRules('solo', aBet())).toEqual([1, 'rejected/brand_unexpected']);
    expect(await withRules('several', aBet({ game: { id: 'g9' } }))).toEqual([1, 'skipped/game_denied']);
    expect(await withRules('several', aBet({ amount: '0.09' }))).toEqual([1, 'skipped/below_min_bet']);
    expect(output).not.toContain('brand and game rules');
  });

  test('an unknown connection is wrong usage, and the nearest or all connections are named', async () => {
    expect(await withRules('severel', aBet())).toEqual([2]);
    expect(errors).toContain('has no connection severel. Did you mean several?');
    expect(await withRules('nobody', aBet())).toEqual([2]);
    expect(errors).toContain('has no connection nobody. Use one of several, solo');
  });

  test('faults of the reference data are reported, and nothing is checked', async () => {
    const rules = { reference: file('reference.yaml', 'operators: [{ id: 5 }]'), connection: 'c' };
    expect(await checked(lines(aBet()), { rules })).toMatchObject({ code: 2, summary: '' });
    expect(errors).toMatch(/reference\.yaml:1:\d+: operators/);
  });
});

test('reference data that is not UTF-8 is refused, as by reference apply', async () => {
  const rules = {
    reference: file('latin-1.yaml', Buffer.from('# caf\xe9\noperators: []', 'latin1')),
    connection: 'c',
  };
  expect(await checked(lines(aBet()), { rules })).toMatchObject({ code: 2, summary: '' });
  expect(errors).toMatch(/latin-1\.yaml:1:6: The file is not UTF-8: byte 6, 0xe9, .* Save it as UTF-8\.\n/);
});

test('reference data is read only up to its largest length', async () => {
  const reference = file('huge.yaml', '');
  truncateSync(reference, MAX_REFERENCE_BYTES + 1);
  const rules = { reference, connection: 'c' };
  expect(await checked(lines(aBet()), { rules })).toMatchObject({ code: 2, summary: '' });
  expect(errors).toMatch(/huge\.yaml:1:1: \S+ has more than 16777216 characters, the limit\. Shorten/);
});

describe('limits of the webhook, for valid and for wrong events [W1]', () => {
  const reference = () =>
    file(
      'hook.yaml',
      `operators:
  - id: acme
    active: true
    brands: [{ id: main, active: true }]
    connections:
      - { id: hook, transport: webhook, brand: main }
      - { id: stream, transport: kafka, topic: t, brand: main }
`,
    );
  const by = (connection: string) => ({ rules: { reference: reference(), connection } });
  const login = (more: object = {}, id = 'e-1') => ({ ...aLogin(id), ...more });

  it('an event that is too large, or has too many values, only for a webhook', async () => {
    const content = lines(
      login({ note: 'x'.repeat(1024 ** 2) }, 'large'),
      login({ note: Array.from({ length: 20_000 }, () => 1) }, 'many'),
      login({ note: Array.from({ length: 19_000 }, () => 1) }, 'few'),
    );
    const { code, lines: told, summary } = await checked(content, by('hook'));
    expect(told).toEqual([
      expect.stringMatching(
        /^events:1: warning: a request with this event has 1048\d{3} bytes, more than the limit of 1048576, unless agreed otherwise: the webhook would answer 413\.$/,
      ),
      expect.stringMatching(/^events:2: warning: the event has more than 20000 JSON values/),
    ]);
    expect([code, summary]).toEqual([1, expect.stringContaining('3 accepted')]);
    expect((await checked(content, by('stream'))).code).toBe(0);
    expect(await checkedAsJson(content, by('hook'))).toEqual([
      ...[1, 2].map((line) => expect.objectContaining({ line, warning: expect.any(String) })),
      expect.not.objectContaining({ warning: expect.anything() }),
    ]);
  });

  it('a document with more events than a request may have', async () => {
    const document = (count: number) =>
      JSON.stringify({ events: Array.from({ length: count }, (_, index) => login({}, `e-${index}`)) });
    errors = '';
    expect((await checked(document(501), by('hook'))).code).toBe(1);
    expect(errors).toMatch(
      /: warning: as one request, the document has 501 events and .* promo-intake send divides it\.\n/,
    );
    errors = '';
    expect((await checked(document(500), by('hook'))).code).toBe(0);
    expect(errors).not.toContain('warning');
  });
});

it('counts one fault once', async () => {
  const rules = { reference: file('bad.yaml', 'operators: 5\n'), connection: 'x' };
  expect((await checked('{}', { rules })).code).toBe(2);
  expect(errors).toMatch(/: 1 fault; nothing was checked\n$/);
});
