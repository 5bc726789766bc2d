/** Calls that the client cannot serve while it restarts. */

import { makeKafka } from '../../../../src/kafka/client/client';
import { ignoreWhileRestarting } from '../../../../src/kafka/consumer/membership';
import { makeLogger } from '../../../../src/telemetry/logger';

it('the errors of pause, resume and seek without a group are ignored, and no other error is', () => {
  const kafka = makeKafka({ brokers: ['127.0.0.1:1'], clientId: 'promo-test' }, makeLogger('silent'));
  const consumer = kafka.consumer({ groupId: 'g' });
  for (const change of [
    () => consumer.pause([{ topic: 't' }]),
    () => consumer.resume([{ topic: 't' }]),
    () => consumer.seek({ topic: 't', partition: 0, offset: '1' }),
  ]) {
    expect(change).toThrow('Consumer group was not initialized');
    expect(() => ignoreWhileRestarting(change)).not.toThrow();
  }
  expect(() =>
    ignoreWhileRestarting(() => consumer.seek({ topic: 't', partition: 0, offset: 'none' })),
  ).toThrow();
});
