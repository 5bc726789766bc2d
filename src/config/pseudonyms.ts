/** The setting of `pseudonyms`: the keys by which pseudonyms are computed. */
import { type Parsed, secret, secretBytes } from './setting';

export const PSEUDONYM_KEYS = secret({
  describe:
    'Key of the pseudonyms, and behind it the former key while it is replaced, separated by white space. A key is pskey_ and 32 to 64 random bytes in base64. Without it nobody computes a pseudonym from a player.',
  required: true,
  example: 'pskey_...',
  check(text) {
    const read = readPseudonymKeys(text);
    return 'problem' in read ? read : undefined;
  },
});

const REMEDY =
  'Write a key, and behind it the former one while it is replaced. This makes a key: echo "pskey_$(openssl rand -base64 32)"';
const PREFIX = 'pskey_';
const BYTES = [32, 64] as const;
/** 32 random bytes have fewer different values than this once in 10^30. */
const LEAST_DIFFERENT = 12;

/** Reads PSEUDONYM_KEYS. A fault repeats no text, which may be a key. */
export function readPseudonymKeys(text: string): Parsed<readonly [Buffer, Buffer | undefined]> {
  const wrong = (problem: string) => ({ problem, remedy: REMEDY });
  const written = text.split(/\s+/).filter((each) => each !== '');
  const keys = written.map(decode);
  const wrongAt = keys.indexOf(undefined);
  if (wrongAt >= 0)
    return wrong(
      `has a wrong form in key ${wrongAt + 1}: it is not ${PREFIX} and ${BYTES.join(' to ')} random bytes in base64`,
    );
  const [key, former, ...more] = keys;
  if (key === undefined) return wrong('has no key');
  if (more.length > 0) return wrong('has more than two keys');
  if (former?.equals(key)) return wrong('has the same key twice');
  return { value: [key, former] };
}

/** Decodes a key; undefined where it cannot be used. */
function decode(written: string): Buffer | undefined {
  const key = secretBytes(written, PREFIX, BYTES);
  return key !== undefined && new Set(key).size >= LEAST_DIFFERENT ? key : undefined;
}
