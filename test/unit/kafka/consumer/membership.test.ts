/** What the client cannot do while it restarts. */

import { makeKafka } from '../../../../src/kafka/client/client';
import { ignoreWhileRestarting } from '../../../../src/kafka/consumer/membership';
import { makeLogger } from '../../../../src/telemetry/logger';

it('a client without a group takes no pause, no resume and no seek, which is no error; any other one is', () => {
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
