/**
 * The codecs for clients of kafkajs in tests, because kafkajs contains only gzip. The product decodes and
 * encodes batches itself.
 */
import { CompressionCodecs, CompressionTypes } from 'kafkajs';
import { type CodecLimits, makeCodecs } from '../../src/kafka/protocol/compression';

/**
 * Registers all four codecs with kafkajs, for every client of this process.
 * @throws RangeError for an invalid limit
 */
export function registerCodecs(limits: CodecLimits): void {
  const codecs = makeCodecs(limits);
  CompressionCodecs[CompressionTypes.GZIP] = () => codecs.gzip;
  CompressionCodecs[CompressionTypes.Snappy] = () => codecs.snappy;
  CompressionCodecs[CompressionTypes.LZ4] = () => codecs.lz4;
  CompressionCodecs[CompressionTypes.ZSTD] = () => codecs.zstd;
}
