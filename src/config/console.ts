/** The settings of the console: its port, and the tokens of operators. */
import { group } from './reading';
import { jsonEntries, networks, type Parsed, portNumber, type Secret, secret, setting } from './setting';
import { idOrPlace } from './webhook';

export interface ConsoleSettings {
  readonly port: number;
  /** Addresses, and networks such as 10.0.0.0/8. */
  readonly trustedProxies: readonly string[];
  /** See `readTokens`. */
  readonly tokens: Secret;
}

/** The tokens of each operator, by its id. */
export type ConsoleTokens = ReadonlyMap<string, readonly string[]>;

const SETTINGS = {
  CONSOLE_PORT: setting({
    describe: 'Port of the console. 0: any free port; the log has its number.',
    fallback: '8083',
    example: '8083',
    parse: portNumber,
  }),
  CONSOLE_TOKENS: secret({
    describe:
      'Tokens of the console, as a JSON object: each operator id has its token, or a list of tokens while one is replaced. A token has 32 to 256 letters, digits or signs, and shows the data of its operator alone.',
    required: true,
    example: '{"acme": "..."}',
    check(text) {
      const read = readTokens(text);
      return 'problem' in read ? read : undefined;
    },
  }),
  CONSOLE_TRUSTED_PROXIES: setting({
    describe:
      'Addresses and networks of the load balancers and proxies in front of the console, comma-separated. X-Forwarded-For of their requests has the address of the sender, for the limit of wrong tokens. Absent: the address of the network connection counts.',
    example: '10.0.0.0/8,192.0.2.7',
    parse: networks,
  }),
} as const;

export const consoleSettings = group(SETTINGS, (reading): ConsoleSettings | undefined => {
  const [port, tokens] = [reading.value('CONSOLE_PORT'), reading.value('CONSOLE_TOKENS')];
  const trustedProxies = reading.value('CONSOLE_TRUSTED_PROXIES') ?? [];
  if (port === undefined || tokens === undefined) return undefined;
  return { port, trustedProxies, tokens };
});

const REMEDY = 'Write an object such as {"acme": "..."}. This makes a token: openssl rand -base64 32';
/** Visible ASCII, so that a header and a form can carry it. */
const TOKEN = /^[!-~]{32,256}$/;
/** A random token of 32 characters has more different ones than this. */
const LEAST_DIFFERENT = 10;

/**
 * Reads CONSOLE_TOKENS. A fault repeats no text that may be a token, since ids and tokens are easily
 * swapped.
 */
export function readTokens(text: string): Parsed<ConsoleTokens> {
  const owners = new Map<string, string>();
  return jsonEntries(text, {
    remedy: REMEDY,
    none: 'names no operator',
    read(operator, value, place) {
      const name = idOrPlace(operator, place);
      const list: unknown[] = Array.isArray(value) ? value : [value];
      if (operator === '' || list.length === 0) return `has no token for ${name}, or no operator`;
      const tokens: string[] = [];
      for (const token of list) {
        if (typeof token !== 'string' || !TOKEN.test(token))
          return `has a wrong form in a token of ${name}: it is not 32 to 256 visible ASCII characters`;
        if (new Set(token).size < LEAST_DIFFERENT)
          return `has a token of ${name} that is easy to guess: it has few different characters`;
        if (owners.has(token))
          return `has one token twice, for ${owners.get(token)} and ${name}: it would name two operators`;
        owners.set(token, name);
        tokens.push(token);
      }
      return { value: tokens };
    },
  });
}
