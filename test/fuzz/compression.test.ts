import { randomBytes } from 'node:crypto';
import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { CompressionCodecs, CompressionTypes } from 'kafkajs';
import { compress as compressSnappy } from 'snappyjs';
import {
  type Codec,
  DecompressionError,
  DecompressionLimitError,
  makeCodecs,
} from '../../src/kafka/protocol/compression';
import { registerCodecs } from '../support/kafkajs-codecs';

const MIB = 1024 * 1024;
const LIMIT_BYTES = 16 * MIB;
type Name = keyof ReturnType<typeof makeCodecs>;

const NAMES: Name[] = ['gzip', 'snappy', 'lz4', 'zstd'];

const codec = (name: Name, maxDecompressedBytes = LIMIT_BYTES): Codec =>
  makeCodecs({ maxDecompressedBytes })[name];
const decode = (name: Name, bytes: Buffer, maxDecompressedBytes = LIMIT_BYTES) =>
  codec(name, maxDecompressedBytes).decompress(bytes);
/** Compares by hand, because expect's own comparison takes a second for a buffer of this size. */
const expectEqual = (actual: Buffer, expected: Buffer): void => expect(actual.equals(expected)).toBe(true);
const base64 = (text: string): Buffer => Buffer.from(text, 'base64');

/** 300 bytes without a pattern, repeated: the reference frames below hold 70,000 bytes of them. */
function plain(length: number): Buffer {
  let state = 1;
  const segment = Buffer.from(
    Array.from({ length: 300 }, () => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return (state >>> 16) & 255;
    }),
  );
  return Buffer.alloc(length, segment);
}

const PLAIN = plain(70_000);

/** Encoded by other libraries: kafka-clients 3.9.1, python-lz4 4.4, python-zstandard 0.25. */
const REFERENCE: { name: string; codec: Name; bytes: Buffer }[] = [
  {
    name: 'gzip of the Java producer',
    codec: 'gzip',
    bytes: base64(
      'H4sIAAAAAAAA/+3QW08NAAAAYNm0NZpZG3PJZXjgQUtbhjDXMsM6cpJLGilmTSWm1VoeqIdUblsZKlupNJONNk2ZdrIZszFz' +
        'a0jxkI0Hw3Qe+At+wPf9hK+/7OThTeFP4bRf9z+UzhisiOiNfx8snJicm1OR0V6ZlDESjCl5fqrpdVLa9rglNw/seju2uO7J' +
        '0LTj1Xvf1NfMWpX4be2JzdGjPS1vh09XDyzI2/I3OJg/O1zTuWNcbShqYNvT9uUp9YEXgSuRDSN3HkbG1G28HTGzY3Fl/OXA' +
        'hosFiTXpv5bGTh6tLPpZVzpl9+ruvILqifkZjyKmxyWsOPsgtjk6+kbCmbLMmpVfDha1LOvsOz+pNfvRu8cfswZ/9EaNyb02' +
        'NL9xTnzFy32h1q1li6IOX2i4ldd2def4Dfnld58lT2hpXvi6I9z4tat4XuHccynloZbrp7peVdUO39i/LpAzdDlh/p/M9ntH' +
        's/ZsKijraatKn1rQ9zjz88KEjsrUnKaSY7nZlw59PxJc0xibGhr7u/vc+n5Xrly5cuXKlStXrly5cuXKlStXrly5cuXKlStX' +
        'rly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStX' +
        'rly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStX' +
        'rly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStX' +
        'rly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXKlStXrly5cuXqP6/+AbfBLJhwEQEA',
    ),
  },
  {
    name: 'snappy of the Java producer: xerial framing, three chunks',
    codec: 'snappy',
    bytes: base64(
      'glNOQVBQWQAAAAABAAAAAQAABy6AgAL0NAHGfoFrS/vi+1T2vd98HOGHAb8x3lZyD0dnZodZqog8WepWE3vShaHYPFRVLzeu' +
        'ZVvaAnmYzOMado5f2ZmPHz827kN4TQ36vqba5IaO3CltTv9W4XAg+4+xWAWQxQncU82qO0iZUtNSnQaf6rXCBhOYSbIBHqwy' +
        'iDGcUkaVcTaPV/Y5HRb6iHT1mHwXXEG7bXGOD3BZxwEbLzM9kcAdpQ0NqzONfl6PPuZodKY6scOTEahkx9vK4GDh878JAGei' +
        '4yWgITGH1WLFqE9+LglrlJ+wbameWgtGcIC2z0cMpqUq2Kz7oOu3eSRyI5JIgMWmp4W314yQ5KtjRFJm45wzJfleqrpzYF1L' +
        'cX6+qYxXGXHDyl7lKjOsiFFmoXt1Z2Saae9vVkKgHVHFAve7kkXGfoFrS/vi+1T+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAE9LAAABy6AgAL0NAEN+r6m' +
        '2uSGjtwpbU7/VuFwIPuPsVgFkMUJ3FPNqjtImVLTUp0Gn+q1wgYTmEmyAR6sMogxnFJGlXE2j1f2OR0W+oh09Zh8F1xBu21x' +
        'jg9wWccBGy8zPZHAHaUNDaszjX5ejz7maHSmOrHDkxGoZMfbyuBg4fO/CQBnouMloCExh9VixahPfi4Ja5SfsG2pnloLRnCA' +
        'ts9HDKalKtis+6Drt3kkciOSSIDFpqeFt9eMkOSrY0RSZuOcMyX5Xqq6c2BdS3F+vqmMVxlxw8pe5SozrIhRZqF7dWdkmmnv' +
        'b1ZCoB1RxQL3u5JFxn6Ba0v74vtU9r3ffBzhhwG/Md5Wcg9HZ2aHWaqIPFnqVhN70oWh2DxUVS83rmVb2gJ5mMzjGnaOX9mZ' +
        'jx8/Nu5DeE0N+r6m2uSGjtz+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+' +
        'LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAH+LAE9LAAAAf3wIvQ0AZh8F1xBu21xjg9wWccBGy8zPZHAHaUNDaszjX5ejz7maHSm' +
        'OrHDkxGoZMfbyuBg4fO/CQBnouMloCExh9VixahPfi4Ja5SfsG2pnloLRnCAts9HDKalKtis+6Drt3kkciOSSIDFpqeFt9eM' +
        'kOSrY0RSZuOcMyX5Xqq6c2BdS3F+vqmMVxlxw8pe5SozrIhRZqF7dWdkmmnvb1ZCoB1RxQL3u5JFxn6Ba0v74vtU9r3ffBzh' +
        'hwG/Md5Wcg9HZ2aHWaqIPFnqVhN70oWh2DxUVS83rmVb2gJ5mMzjGnaOX9mZjx8/Nu5DeE0N+r6m2uSGjtwpbU7/VuFwIPuP' +
        'sVgFkMUJ3FPNqjtImVLTUp0Gn+q1wgYTmEmyAR6sMogxnFJGlXE2j1f2OR0W+oh09Zh8F1xBu21xjv4sAf4sAf4sAf4sAf4s' +
        'Af4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4s' +
        'Af4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4s' +
        'Af4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAf4sAeosAQ==',
    ),
  },
  {
    name: 'lz4 of the Java producer: independent blocks, no sizes',
    codec: 'lz4',
    bytes: base64(
      'BCJNGGBAgjcCAAD//x7GfoFrS/vi+1T2vd98HOGHAb8x3lZyD0dnZodZqog8WepWE3vShaHYPFRVLzeuZVvaAnmYzOMado5f' +
        '2ZmPHz827kN4TQ36vqba5IaO3CltTv9W4XAg+4+xWAWQxQncU82qO0iZUtNSnQaf6rXCBhOYSbIBHqwyiDGcUkaVcTaPV/Y5' +
        'HRb6iHT1mHwXXEG7bXGOD3BZxwEbLzM9kcAdpQ0NqzONfl6PPuZodKY6scOTEahkx9vK4GDh878JAGei4yWgITGH1WLFqE9+' +
        'LglrlJ+wbameWgtGcIC2z0cMpqUq2Kz7oOu3eSRyI5JIgMWmp4W314yQ5KtjRFJm45wzJfleqrpzYF1LcX6+qYxXGXHDyl7l' +
        'KjOsiFFmoXt1Z2Saae9vVkKgHVHFAve7kkUsAf//////////////////////////////////////////////////////////' +
        '////////////////////////////////////////////////////////////////////////////////////////////////' +
        '////////////////////////////////////////////////////////////////////////////////////////////////' +
        '/////////////////////////////////////////////////////////////////////////////////////////7tQFvqI' +
        'dPVIAQAA//8emHwXXEG7bXGOD3BZxwEbLzM9kcAdpQ0NqzONfl6PPuZodKY6scOTEahkx9vK4GDh878JAGei4yWgITGH1WLF' +
        'qE9+LglrlJ+wbameWgtGcIC2z0cMpqUq2Kz7oOu3eSRyI5JIgMWmp4W314yQ5KtjRFJm45wzJfleqrpzYF1LcX6+qYxXGXHD' +
        'yl7lKjOsiFFmoXt1Z2Saae9vVkKgHVHFAve7kkXGfoFrS/vi+1T2vd98HOGHAb8x3lZyD0dnZodZqog8WepWE3vShaHYPFRV' +
        'LzeuZVvaAnmYzOMado5f2ZmPHz827kN4TQ36vqba5IaO3CltTv9W4XAg+4+xWAWQxQncU82qO0iZUtNSnQaf6rXCBhOYSbIB' +
        'HqwyiDGcUkaVcTaPV/Y5HRb6iHT1LAH/////////////////////PFDNqjtImQAAAAA=',
    ),
  },
  {
    name: 'zstd of the Java producer: no content size',
    codec: 'zstd',
    bytes: base64(
      'KLUv/QBYvAkAxBLGfoFrS/vi+1T2vd98HOGHAb8x3lZyD0dnZodZqog8WepWE3vShaHYPFRVLzeuZVvaAnmYzOMado5f2ZmP' +
        'Hz827kN4TQ36vqba5IaO3CltTv9W4XAg+4+xWAWQxQncU82qO0iZUtNSnQaf6rXCBhOYSbIBHqwyiDGcUkaVcTaPV/Y5HRb6' +
        'iHT1mHwXXEG7bXGOD3BZxwEbLzM9kcAdpQ0NqzONfl6PPuZodKY6scOTEahkx9vK4GDh878JAGei4yWgITGH1WLFqE9+Lglr' +
        'lJ+wbameWgtGcIC2z0cMpqUq2Kz7oOu3eSRyI5JIgMWmp4W314yQ5KtjRFJm45wzJfleqrpzYF1LcX6+qYxXGXHDyl7lKjOs' +
        'iFFmoXt1Z2Saae9vVkKgHVHFAve7kkUBACxBEC/5mgIBAAA=',
    ),
  },
  {
    name: 'lz4 with linked blocks, content size, block and content checksums',
    codec: 'lz4',
    bytes: base64(
      'BCJNGFxAcBEBAAAAAADjNwIAAP//HsZ+gWtL++L7VPa933wc4YcBvzHeVnIPR2dmh1mqiDxZ6lYTe9KFodg8VFUvN65lW9oC' +
        'eZjM4xp2jl/ZmY8fPzbuQ3hNDfq+ptrkho7cKW1O/1bhcCD7j7FYBZDFCdxTzao7SJlS01KdBp/qtcIGE5hJsgEerDKIMZxS' +
        'RpVxNo9X9jkdFvqIdPWYfBdcQbttcY4PcFnHARsvMz2RwB2lDQ2rM41+Xo8+5mh0pjqxw5MRqGTH28rgYOHzvwkAZ6LjJaAh' +
        'MYfVYsWoT34uCWuUn7BtqZ5aC0ZwgLbPRwympSrYrPug67d5JHIjkkiAxaanhbfXjJDkq2NEUmbjnDMl+V6qunNgXUtxfr6p' +
        'jFcZccPKXuUqM6yIUWahe3VnZJpp729WQqAdUcUC97uSRSwB////////////////////////////////////////////////' +
        '////////////////////////////////////////////////////////////////////////////////////////////////' +
        '////////////////////////////////////////////////////////////////////////////////////////////////' +
        '////////////////////////////////////////////////////////////////////////////////////////////////' +
        '////u1AW+oh09Sva8SgbAAAAD3j///////////////////////9pUM2qO0iZ7TNrMQAAAABhj+h5',
    ),
  },
  {
    name: 'zstd with content size and checksum',
    codec: 'zstd',
    bytes: base64(
      'KLUv/aRwEQEAvQkAxBLGfoFrS/vi+1T2vd98HOGHAb8x3lZyD0dnZodZqog8WepWE3vShaHYPFRVLzeuZVvaAnmYzOMado5f' +
        '2ZmPHz827kN4TQ36vqba5IaO3CltTv9W4XAg+4+xWAWQxQncU82qO0iZUtNSnQaf6rXCBhOYSbIBHqwyiDGcUkaVcTaPV/Y5' +
        'HRb6iHT1mHwXXEG7bXGOD3BZxwEbLzM9kcAdpQ0NqzONfl6PPuZodKY6scOTEahkx9vK4GDh878JAGei4yWgITGH1WLFqE9+' +
        'LglrlJ+wbameWgtGcIC2z0cMpqUq2Kz7oOu3eSRyI5JIgMWmp4W314yQ5KtjRFJm45wzJfleqrpzYF1LcX6+qYxXGXHDyl7l' +
        'KjOsiFFmoXt1Z2Saae9vVkKgHVHFAve7kkUBACxBEC/5mgLWBaXM',
    ),
  },
  {
    name: 'zstd of level 22: a window of 128 MiB',
    codec: 'zstd',
    bytes: base64(
      'KLUv/QCIvQkAxBLGfoFrS/vi+1T2vd98HOGHAb8x3lZyD0dnZodZqog8WepWE3vShaHYPFRVLzeuZVvaAnmYzOMado5f2ZmP' +
        'Hz827kN4TQ36vqba5IaO3CltTv9W4XAg+4+xWAWQxQncU82qO0iZUtNSnQaf6rXCBhOYSbIBHqwyiDGcUkaVcTaPV/Y5HRb6' +
        'iHT1mHwXXEG7bXGOD3BZxwEbLzM9kcAdpQ0NqzONfl6PPuZodKY6scOTEahkx9vK4GDh878JAGei4yWgITGH1WLFqE9+Lglr' +
        'lJ+wbameWgtGcIC2z0cMpqUq2Kz7oOu3eSRyI5JIgMWmp4W314yQ5KtjRFJm45wzJfleqrpzYF1LcX6+qYxXGXHDyl7lKjOs' +
        'iFFmoXt1Z2Saae9vVkKgHVHFAve7kkUBACxBEC/5mgI=',
    ),
  },
];
const reference = (name: string): Buffer => REFERENCE.find((row) => row.name.startsWith(name))!.bytes;

/** A raw snappy value of one literal and copies of 64 bytes of it: the densest that the format allows. */
function snappyBomb(length: number): Buffer {
  const preamble: number[] = [];
  for (let rest = length; ; rest = Math.floor(rest / 128)) {
    preamble.push(rest < 128 ? rest : (rest % 128) + 128);
    if (rest < 128) break;
  }
  const copy = Buffer.from([(63 << 2) | 2, 1, 0]);
  const copies = Math.floor((length - 1) / 64);
  const rest = Buffer.from([(length - 1 - copies * 64 - 1) * 4 + 2, 1, 0]);
  return Buffer.concat([
    Buffer.from([...preamble, 0, 0x2e]),
    Buffer.alloc(copies * 3, copy),
    (length - 1) % 64 === 0 ? Buffer.alloc(0) : rest,
  ]);
}

/** An LZ4 frame of 4 MiB blocks, each of one literal and one match that fills the block. */
function lz4Bomb(blocks: number): Buffer {
  const matchBytes = 4 * MIB - 1;
  const more = matchBytes - 4 - 15;
  const block = Buffer.concat([
    Buffer.from([0x1f, 0x2e, 1, 0]),
    Buffer.alloc(Math.floor(more / 255), 255),
    Buffer.from([more % 255]),
  ]);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(block.length);
  const header = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0]);
  return Buffer.concat([
    header,
    ...Array.from({ length: blocks }, () => [size, block]).flat(),
    Buffer.alloc(4),
  ]);
}

/** A zstd frame of run-length blocks: 4 bytes for each 128 KiB. */
function zstdBomb(blocks: number, window = 0x38): Buffer {
  const block = (last: number) => Buffer.from([((0x20000 << 3) & 0xff) | 2 | last, 0x00, 0x10, 0x2e]);
  return Buffer.concat([
    Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, window]),
    Buffer.alloc((blocks - 1) * 4, block(0)),
    block(1),
  ]);
}

function bomb(name: Name): Buffer {
  if (name === 'gzip') return zlib.gzipSync(Buffer.alloc(64 * MIB));
  if (name === 'snappy') return snappyBomb(64 * MIB);
  return name === 'lz4' ? lz4Bomb(16) : zstdBomb(512);
}

describe('values of other encoders', () => {
  it.each(REFERENCE)('$name', async ({ codec: name, bytes }) => {
    expectEqual(await decode(name, bytes), PLAIN);
  });

  it('lz4 with a stored block', async () => {
    expect(
      await decode(
        'lz4',
        base64(
          'BCJNGGBAgmQAAIDGfoFrS/vi+1T2vd98HOGHAb8x3lZyD0dnZodZqog8WepWE3vShaHYPFRVLzeuZVvaAnmYzOMado5f2ZmPHz827kN4TQ36vqba5IaO3CltTv9W4XAg+4+xWAWQxQncU82qO0iZAAAAAA==',
        ),
      ),
    ).toEqual(PLAIN.subarray(0, 100));
  });

  it('the reference frames have the features of their names', () => {
    expect(reference('lz4 with linked blocks').readUInt8(4)).toBe(0b01_0_1_1_1_0_0);
    expect(reference('lz4 of the Java producer').readUInt8(4)).toBe(0b01_1_0_0_0_0_0);
    expect(reference('snappy of the Java producer').toString('latin1', 1, 7)).toBe('SNAPPY');
    expect(reference('zstd of level 22').readUInt8(5) >> 3).toBe(17);
  });

  it('raw snappy, as librdkafka and snappyjs write it', async () => {
    expectEqual(await decode('snappy', compressSnappy(PLAIN)), PLAIN);
  });

  it('a copy of snappy with an offset of four bytes, which no common encoder writes', async () => {
    const bytes = Buffer.from([8, 3 << 2, 1, 2, 3, 4, (3 << 2) | 3, 4, 0, 0, 0]);
    expect(await decode('snappy', bytes)).toEqual(Buffer.from([1, 2, 3, 4, 1, 2, 3, 4]));
  });

  it('several frames in a row', async () => {
    const lz4 = reference('lz4 of');
    expectEqual(await decode('lz4', Buffer.concat([lz4, lz4])), Buffer.concat([PLAIN, PLAIN]));
    const zstd = reference('zstd of the Java');
    const skippable = Buffer.from([0x5f, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    expectEqual(await decode('zstd', Buffer.concat([zstd, skippable, zstd])), Buffer.concat([PLAIN, PLAIN]));
  });
});

describe('the size that encoded bytes declare', () => {
  const bytes = plain(10 * MIB);
  const memoryOf = ({ buffer }: Buffer) => buffer.byteLength;

  it.each(['gzip', 'zstd'] as const)(
    '%s: is allocated at once, because joining pieces would need twice the memory',
    async (name) => {
      const decoded = await decode(name, await codec(name).compress({ buffer: bytes }));
      expectEqual(decoded, bytes);
      // A buffer that is joined of pieces has no spare byte.
      expect(memoryOf(decoded)).toBe(bytes.length + 1);
    },
  );

  it('may be too small, as with several members: everything is decoded', async () => {
    const members = Buffer.concat([zlib.gzipSync(bytes), zlib.gzipSync('last')]);
    expectEqual(await decode('gzip', members), Buffer.concat([bytes, Buffer.from('last')]));
    await expect(decode('gzip', members, bytes.length)).rejects.toThrow(DecompressionLimitError);
  });

  it('may be too large: no memory is kept for it', async () => {
    // Bytes behind a member are skipped if they are no member.
    const saying = Buffer.from([0, 0xff, 0xff, 0xff, 0xff]);
    const decoded = await decode('gzip', Buffer.concat([zlib.gzipSync('all'), saying]));
    expect(String(decoded)).toBe('all');
    expect(memoryOf(decoded)).toBeLessThan(MIB);
  });
});

describe('our encoded values are decoded again', () => {
  it.each(NAMES)('%s', async (name) => {
    for (const size of [0, 1, 65_535, 65_536, 65_537, 10 * MIB]) {
      const bytes = plain(size);
      const encoded = await codec(name).compress({ buffer: bytes });
      expectEqual(await decode(name, encoded), bytes);
    }
  });

  it.each(NAMES)('%s, for any bytes', async (name) => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 2000 }),
      fc.array(fc.constantFrom(0, 1, 2), { maxLength: 2000 }).map((values) => Uint8Array.from(values)),
    );
    await fc.assert(
      fc.asyncProperty(bytes, async (value) => {
        const buffer = Buffer.from(value);
        const encoded = await codec(name).compress({ buffer });
        expectEqual(await decode(name, encoded), buffer);
      }),
    );
  });

  it.each(NAMES)('%s: bytes that repeat become fewer', async (name) => {
    const encoded = await codec(name).compress({ buffer: PLAIN });
    expect(encoded.length).toBeLessThan(PLAIN.length / 10);
  });

  it('lz4: a block that does not become smaller is stored', async () => {
    const noise = randomBytes(100_000);
    const encoded = await codec('lz4').compress({ buffer: noise });
    // The header, a size for each of two blocks, and the end mark.
    expect(encoded.length).toBe(noise.length + 7 + 2 * 4 + 4);
    expectEqual(await decode('lz4', encoded), noise);
  });

  it('lz4: literals and matches of every length around those that continue in more bytes', async () => {
    const around = [0, 1, 3, 4, 5, 14, 15, 16, 18, 19, 20, 269, 270, 271, 273, 274, 275, 529, 530];
    for (const literals of around) {
      for (const matchBytes of around) {
        const noise = randomBytes(literals + 8);
        const bytes = Buffer.concat([noise, Buffer.alloc(matchBytes, noise.subarray(0, 8)), noise, noise]);
        expectEqual(await decode('lz4', await codec('lz4').compress({ buffer: bytes })), bytes);
      }
    }
  });
});

describe.each(NAMES)('%s: wrong bytes', (name) => {
  /** Starts from a good value, so that damage goes deeper than the first bytes. */
  const good = REFERENCE.find((row) => row.codec === name)!.bytes;
  const bounded = async (bytes: Buffer, limitBytes: number): Promise<void> => {
    try {
      expect((await decode(name, bytes, limitBytes)).length).toBeLessThanOrEqual(limitBytes);
    } catch (error) {
      expect(error).toBeInstanceOf(DecompressionError);
    }
  };

  it('nothing at all is an error', async () => {
    await expect(decode(name, Buffer.alloc(0))).rejects.toThrow(DecompressionError);
  });

  it('a cut at any place is an error, unless it is between two chunks', async () => {
    for (let length = 0; length < good.length; length += length < 40 || length > good.length - 40 ? 1 : 17) {
      const decoded = await decode(name, good.subarray(0, length)).catch((error: unknown) => error);
      if (Buffer.isBuffer(decoded)) expect([name, decoded.length]).toEqual(['snappy', expect.any(Number)]);
      else expect(decoded).toBeInstanceOf(DecompressionError);
    }
  });

  it('bytes after the end are an error', async () => {
    await expect(decode(name, Buffer.concat([good, Buffer.from('more')]))).rejects.toThrow(
      DecompressionError,
    );
  });

  it('damaged bytes are an error or something within the limit', async () => {
    const damage = fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(damage, async (changes) => {
        const bytes = Buffer.from(good);
        for (const [at, value] of changes) bytes[at] = value;
        await bounded(bytes, 100_000);
      }),
    );
  });

  it('random bytes are an error or something within the limit', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(16), fc.uint8Array({ maxLength: 300 }), async (keep, noise) => {
        await bounded(Buffer.from(noise), 1000);
        await bounded(Buffer.concat([good.subarray(0, keep), noise]), 1000);
      }),
    );
  });

  it('a bomb is refused, and takes neither its memory nor its time', async () => {
    const bytes = bomb(name);
    await expect(decode(name, bytes)).rejects.toThrow(DecompressionLimitError);
    await expect(decode(name, bytes)).rejects.toThrow(`limit of ${LIMIT_BYTES} bytes`);
    expect((await decode(name, bytes, 64 * MIB)).length).toBe(64 * MIB);
  });

  it('the limit itself is accepted, one byte more is not', async () => {
    expect((await decode(name, good, PLAIN.length)).length).toBe(PLAIN.length);
    await expect(decode(name, good, PLAIN.length - 1)).rejects.toThrow(DecompressionLimitError);
  });
});

describe('lies about sizes', () => {
  it('snappy: a length of 4 GiB is refused by itself', async () => {
    await expect(decode('snappy', Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0]))).rejects.toThrow(
      DecompressionLimitError,
    );
  });

  it('snappy: a length that is too large for its bytes is refused before the allocation', async () => {
    await expect(decode('snappy', Buffer.from([0x80, 0x80, 0x80, 0x04, 0, 1]))).rejects.toThrow(
      'longer than it can be',
    );
  });

  it('snappy: elements that stop short of the length are an error, not zeros', async () => {
    await expect(decode('snappy', Buffer.from([9, 3 << 2, 1, 2, 3, 4]))).rejects.toThrow(
      'shorter than it says',
    );
  });

  it('snappy: a literal of nearly 4 GiB ends in an error', async () => {
    await expect(decode('snappy', Buffer.from([9, 63 << 2, 0xfa, 0xff, 0xff, 0xff, 1, 2]))).rejects.toThrow(
      'cut off',
    );
  });

  it('lz4: a content size above the limit is refused by itself', async () => {
    const bytes = Buffer.from(reference('lz4 with linked'));
    bytes.writeBigUInt64LE(2n ** 40n, 6);
    await expect(decode('lz4', bytes)).rejects.toThrow(DecompressionLimitError);
  });

  it('lz4: a wrong content size is an error', async () => {
    const bytes = Buffer.from(reference('lz4 with linked'));
    bytes.writeBigUInt64LE(70_001n, 6);
    await expect(decode('lz4', bytes)).rejects.toThrow('not as long as its frame says');
  });

  it('lz4: an independent block cannot refer to the block before', async () => {
    const bytes = Buffer.from(reference('lz4 with linked'));
    bytes.writeUInt8(bytes.readUInt8(4) | 0x20, 4);
    await expect(decode('lz4', bytes)).rejects.toThrow('too far back');
  });

  it('zstd: a content size above the limit is refused by itself', async () => {
    const frame = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 0x03, 0x00, 0x00, 0x2e]);
    await expect(decode('zstd', frame)).rejects.toThrow(DecompressionLimitError);
  });

  it('zstd: a window of 2 TiB does not allocate 2 TiB', async () => {
    const error = await decode('zstd', zstdBomb(1, 0xf8)).catch((thrown: unknown) => thrown);
    if (!Buffer.isBuffer(error)) expect(error).toBeInstanceOf(DecompressionError);
  });
});

describe('registering', () => {
  it('gives kafkajs all four codecs', async () => {
    registerCodecs({ maxDecompressedBytes: LIMIT_BYTES });
    const types: [
      Name,
      CompressionTypes.GZIP | CompressionTypes.Snappy | CompressionTypes.LZ4 | CompressionTypes.ZSTD,
    ][] = [
      ['gzip', CompressionTypes.GZIP],
      ['snappy', CompressionTypes.Snappy],
      ['lz4', CompressionTypes.LZ4],
      ['zstd', CompressionTypes.ZSTD],
    ];
    for (const [name, type] of types) {
      const good = REFERENCE.find((row) => row.codec === name)!.bytes;
      const registered: Codec = CompressionCodecs[type]();
      expectEqual(await registered.decompress(good), PLAIN);
    }
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'refuses a limit of %s',
    (maxDecompressedBytes) => {
      expect(() => registerCodecs({ maxDecompressedBytes })).toThrow(RangeError);
    },
  );
});
