/** schemas/promotions.schema.json: the file of promotions as JSON Schema, which editors read. */
import { CURRENCIES } from '../../src/domain/event/money';
import { ENTRY_KEYS, FILE_LIMITS, OWN_KEYS } from '../../src/promotion-file/keys';
import {
  PERIODS,
  PROMOTION_TYPES,
  type PromotionType,
  STAKE_KINDS,
  WEEKDAYS,
} from '../../src/promotions/definition';

const refTo = (name: string) => ({ $ref: `#/$defs/${name}` });
const whole = (title: string, description: string, maximum: number, ...examples: number[]) => ({
  title,
  description,
  type: 'integer',
  minimum: 1,
  maximum,
  examples,
});
const amounts = (title: string, description: string, example: string) => ({
  title,
  description,
  ...refTo('amounts'),
  examples: [{ EUR: example }],
});
const listOf = (title: string, description: string, items: string) => ({
  title,
  description,
  type: 'array',
  minItems: 1,
  items: refTo(items),
});
/** An object that may have no other keys. @param rest its properties, and conditions on them */
const closed = (title: string, description: string, required: readonly string[], rest: object) => ({
  title,
  description,
  type: 'object',
  additionalProperties: false,
  required,
  ...rest,
});

/** The keys of all types, in their order. */
const COMMON = {
  id: {
    title: 'Promotion id',
    description: 'Unique within the operator.',
    ...refTo('name'),
    examples: ['streak-7'],
  },
  operator: {
    title: 'Operator',
    description: 'Id of an operator of the reference data. Its events count.',
    ...refTo('name'),
    examples: ['acme'],
  },
  type: {},
  brands: {
    ...listOf(
      'Brands',
      'Only events of these brands count. The default is every brand of the operator.',
      'brandId',
    ),
    examples: [['main']],
  },
  from: {
    title: 'From',
    description:
      'The first instant that counts: a local time of time_zone, or a time with an offset. The default is no bound.',
    ...refTo('bound'),
    examples: ['2026-12-01T00:00'],
  },
  to: {
    title: 'To',
    description: 'The first instant that counts no more. The default is no bound.',
    ...refTo('bound'),
    examples: ['2027-01-01T00:00'],
  },
  time_zone: {
    title: 'Time zone',
    description:
      'An IANA name. Days, weeks and months are those of this zone, and so are local times of from and to.',
    type: 'string',
    pattern: '^[A-Za-z]',
    examples: ['Europe/Warsaw'],
  },
  window: {
    title: 'Window',
    description:
      'The promotion begins again each day, week or month. The default is one window, between from and to.',
    type: 'object',
    additionalProperties: false,
    required: ['every'],
    properties: {
      every: { title: 'Every', description: 'The length of a window.', type: 'string', enum: PERIODS },
      starts: {
        title: 'Starts',
        description:
          'The first day: a weekday (default monday), or a day of the month from 1 to 28 (default 1).',
        anyOf: [{ enum: WEEKDAYS }, { type: 'integer', minimum: 1, maximum: FILE_LIMITS.startOfMonth }],
      },
    },
  },
  accepts_late: {
    title: 'Accepts late',
    description:
      'How long after the end of its window an event may be decided and still count. The default is for ever. Ranks of a leaderboard wait for it.',
    ...refTo('duration'),
    examples: ['P7D'],
  },
  confirm_after: {
    title: 'Confirm after',
    description: 'How long a completion holds until it is confirmed. The default is never.',
    ...refTo('duration'),
    examples: ['PT24H'],
  },
};

const COUNTS = {
  title: 'Counts',
  description: 'bet: each bet. settled: the stakes of a round, at its end.',
  type: 'string',
  enum: STAKE_KINDS,
};
const GAMES = {
  ...listOf(
    'Games',
    'Only events of these games count, and none without a game. The default is every game, and events without a game.',
    'gameId',
  ),
  examples: [['g1', 'g2']],
};
const MIN_AMOUNT = amounts(
  'Smallest amount',
  'Smaller amounts do not count. A currency without an entry has no minimum.',
  '0.50',
);

/** The keys that have one meaning in all types and entries. */
const SHARED: Readonly<Record<string, object>> = {
  completes: {
    title: 'Completes',
    description:
      'once: one time in a window. each: again with each further target, at most 1,000 times in a window.',
    type: 'string',
    enum: ['once', 'each'],
    default: 'once',
  },
  counts: COUNTS,
  games: GAMES,
  min_amount: MIN_AMOUNT,
  target: amounts(
    'Target',
    'The amount to reach, by currency. Each currency counts by itself. Events of other currencies do not count.',
    '500.00',
  ),
  days: whole('Days', 'The number of days in a row.', FILE_LIMITS.days, 7),
  items: listOf('Items', 'The items of the collection.', 'item'),
  points: listOf('Points', 'The events that give points.', 'points'),
  keep_ranks: {
    ...whole('Kept ranks', 'The number of ranks.', FILE_LIMITS.ranks, 100),
    default: FILE_LIMITS.keepRanks,
  },
};

interface TypeWords {
  readonly title: string;
  readonly description: string;
  /** The keys that a promotion of the type must have beside those of every type. */
  readonly required: readonly string[];
  /** The keys that have a meaning of their own in this type. */
  readonly keys?: Readonly<Record<string, object>>;
}

const TYPES: Readonly<Record<PromotionType, TypeWords>> = {
  login_streak: {
    title: 'Login streak',
    description: 'Days with a login, one after the other.',
    required: ['days', 'time_zone'],
  },
  deposit_target: { title: 'Deposit target', description: 'A sum of deposits.', required: ['target'] },
  withdrawal_target: {
    title: 'Withdrawal target',
    description: 'A sum of withdrawals.',
    required: ['target'],
  },
  turnover_target: {
    title: 'Turnover target',
    description: 'A sum of stakes.',
    required: ['target'],
    keys: { counts: { ...COUNTS, default: 'bet' } },
  },
  bet_count: {
    title: 'Bet count',
    description: 'A number of bets.',
    required: ['target'],
    keys: { target: whole('Target', 'The number of bets.', FILE_LIMITS.events, 100) },
  },
  round_count: {
    title: 'Round count',
    description: 'A number of rounds that are settled.',
    required: ['target'],
    keys: { target: whole('Target', 'The number of rounds.', FILE_LIMITS.events, 50) },
  },
  collect_items: {
    title: 'Collected items',
    description: 'Items that rounds give when they are settled. All of them are needed.',
    required: ['items'],
  },
  leaderboard: {
    title: 'Leaderboard',
    description: 'Points, and a rank for each player at the close of the window.',
    required: ['points'],
  },
};

/** @throws where a key of the file has no schema */
function propertiesOf(
  names: readonly string[],
  own: Readonly<Record<string, object>> = {},
): Record<string, object> {
  return Object.fromEntries(
    names.map((name) => {
      const schema = own[name] ?? SHARED[name];
      if (schema === undefined) throw new Error(`the key ${name} has no schema`);
      return [name, schema];
    }),
  );
}

function typeSchema(type: PromotionType): object {
  const { title, description, required, keys } = TYPES[type];
  return closed(title, description, ['id', 'operator', 'type', ...required], {
    dependentRequired: { window: ['time_zone'] },
    properties: {
      ...COMMON,
      type: { title: 'Type', description, const: type },
      ...propertiesOf(OWN_KEYS[type], keys),
    },
  });
}

const perOf = (what: string) =>
  amounts('Per', `The amount that makes ${what}, by currency. The default is one for each event.`, '1.00');

const DEFINITIONS = {
  item: closed('Item', 'An item of the collection.', ['id', 'need'], {
    properties: propertiesOf(ENTRY_KEYS.items, {
      id: {
        title: 'Item id',
        description: 'Unique in the promotion.',
        ...refTo('name'),
        examples: ['ruby'],
      },
      need: whole('Need', 'The number of items that a player needs.', FILE_LIMITS.events, 3),
      per: perOf('one item'),
    }),
  }),
  points: closed('Points', 'Events that give points.', ['counts', 'points'], {
    properties: propertiesOf(ENTRY_KEYS.points, {
      per: perOf('the points'),
      points: whole('Points', 'The number of points.', FILE_LIMITS.points, 1),
    }),
  }),
  amounts: {
    title: 'Amounts',
    description: 'By currency code, in major units, as text. Above zero.',
    type: 'object',
    minProperties: 1,
    propertyNames: refTo('currency'),
    additionalProperties: {
      title: 'Amount',
      description: 'An exact decimal in quotes, with at most the decimals of the currency.',
      type: 'string',
      pattern: '^(0|[1-9][0-9]*)(\\.[0-9]+)?$',
      examples: ['500.00'],
    },
  },
  bound: {
    title: 'Time',
    description: 'A date, a local time, or a time with an offset.',
    type: 'string',
    pattern: '^\\d{4}-\\d\\d-\\d\\d([Tt]\\d\\d:\\d\\d|$)',
  },
  duration: {
    title: 'Duration',
    description: 'An ISO 8601 duration of weeks, or of days, hours, minutes and seconds. A day has 24 hours.',
    type: 'string',
    pattern: '^P\\d|^PT\\d',
  },
  name: {
    title: 'Name',
    description: 'At most 255 bytes of UTF-8, without slashes, spaces and invisible characters.',
    type: 'string',
    minLength: 1,
    maxLength: 255,
    pattern: '^[^/\\s\\p{Z}\\p{Cc}\\p{Cf}\\p{Cs}]+$',
  },
  brandId: {
    title: 'Brand id',
    description: 'At most 255 bytes of UTF-8, without U+0000.',
    type: 'string',
    minLength: 1,
    maxLength: 255,
    pattern: '^[^\\u0000\\p{Cs}]+$',
  },
  gameId: {
    title: 'Game id',
    description: 'Any text without U+0000.',
    type: 'string',
    minLength: 1,
    pattern: '^[^\\u0000\\p{Cs}]+$',
  },
  currency: {
    title: 'Currency',
    description: 'A code of the table of currencies, in any letter case.',
    anyOf: [{ enum: CURRENCIES.map(({ code }) => code) }, { pattern: '^[A-Za-z]+$' }],
    examples: ['EUR'],
  },
};

export function promotionSchema(): object {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: 'urn:promo-intake:promotions',
    title: 'Promotions',
    description:
      'Promotions of operators: what players have to reach, and when. Run `promo-intake promotions check FILE`, too: it finds faults that a schema cannot, such as times that do not exist and ids that occur twice.',
    type: 'object',
    additionalProperties: false,
    required: ['promotions'],
    properties: {
      promotions: {
        title: 'Promotions',
        description: 'All promotions.',
        type: 'array',
        items: refTo('promotion'),
      },
    },
    examples: [{ promotions: [{ id: 'spins-100', operator: 'acme', type: 'bet_count', target: 100 }] }],
    $defs: {
      promotion: {
        title: 'Promotion',
        description: 'A promotion; its type decides its keys.',
        oneOf: PROMOTION_TYPES.map(refTo),
      },
      ...Object.fromEntries(PROMOTION_TYPES.map((type) => [type, typeSchema(type)])),
      ...DEFINITIONS,
    },
  };
}
