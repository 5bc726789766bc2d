/** A running webhook with a topic of verdicts for each operator. */
import { until } from '../../dev/servers/deadline';
import { deleteTopics } from '../../dev/servers/topics';
import { inWorld } from '../stream/world';
import { anOperator } from '../support/builders';
import { alterTopic, readTopic } from '../support/kafka';
import { aLogin } from '../support/ledger';
import { withAdmin } from '../support/servers';
import { aSecret, senderTo, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

afterEach(killWorkers);

const OPERATORS = ['acme', 'beta', 'late'] as const;
const operatorOf = (id: string) =>
  anOperator({ id, connections: [{ id: `${id}-hook`, transport: 'webhook' }] });
const SECRETS = { 'acme-hook': aSecret(), 'beta-hook': aSecret(), 'late-hook': aSecret() };
/** The webhook reads new reference data within this time. */
const NEW_REFERENCE_MS = 60_000;

test('a webhook publishes to the topic of each operator, creates it, and one that refuses holds up no other [S9 W5]', () =>
  inWorld({ topics: {}, operators: () => ['acme', 'beta'].map(operatorOf) }, async (world) => {
    const pattern = `verdicts.${world.groupId}.{operator}`;
    const topicOf = (operator: string) => pattern.replace('{operator}', operator);
    const messagesOf = async (operator: string): Promise<{ event_id: string; operator_id: string }[]> =>
      (await readTopic(topicOf(operator))).map(({ value }) => JSON.parse(String(value)));
    const idsOf = async (operator: string) => (await messagesOf(operator)).map(({ event_id }) => event_id);
    const topics = OPERATORS.map(topicOf);
    try {
      const { KAFKA_BROKERS } = world.settings;
      const { command, port } = await startWebhook(
        { DATABASE_URL: world.writerUrl, KAFKA_BROKERS, VERDICT_TOPIC: pattern },
        SECRETS,
      );
      const created = () => command.logged('topic created').map(({ topic }) => topic);
      expect(created()).toEqual([topicOf('acme'), topicOf('beta')]);
      const send = (operator: (typeof OPERATORS)[number], ...ids: string[]) =>
        senderTo(
          port,
          `${operator}-hook`,
          SECRETS[`${operator}-hook`],
        )({ events: ids.map((event_id) => aLogin({ event_id })) });
      expect((await send('acme', 'a-1', 'a-2')).verdicts).toEqual(['accepted', 'accepted']);
      expect((await send('beta', 'b-1')).verdicts).toEqual(['accepted']);
      expect(await messagesOf('acme')).toMatchObject([
        { event_id: 'a-1', operator_id: 'acme', source: null },
        { event_id: 'a-2', operator_id: 'acme', source: null },
      ]);
      expect(await idsOf('beta')).toEqual(['b-1']);

      // An operator that comes later has no topic yet.
      await world.apply(OPERATORS.map(operatorOf));
      await until('the webhook knows the operator', NEW_REFERENCE_MS, async () => {
        return (await send('late', 'l-1')).status === 200;
      });
      expect([await idsOf('late'), created()]).toEqual([['l-1'], topics]);

      await alterTopic(topicOf('beta'), { 'max.message.bytes': '20' });
      const waiting = send('beta', 'b-2');
      await until('the topic refuses', 60_000, () => {
        return command.logged('cannot publish verdicts, retrying').length > 0;
      });
      for (let n = 3; n < 8; n++) expect((await send('acme', `a-${n}`)).status).toBe(200);
      expect(await idsOf('acme')).toEqual(['a-1', 'a-2', 'a-3', 'a-4', 'a-5', 'a-6', 'a-7']);
      expect(await idsOf('beta')).toEqual(['b-1']);
      await alterTopic(topicOf('beta'), { 'max.message.bytes': '1000000' });
      // It waits for 20 s at most, and its sender repeats it then.
      const { status, verdicts } = await waiting;
      expect([200, 503]).toContain(status);
      if (status === 200) expect(verdicts).toEqual(['accepted']);
      else expect((await send('beta', 'b-2')).verdicts).toEqual(['duplicate of accepted']);
      expect(new Set(await idsOf('beta'))).toEqual(new Set(['b-1', 'b-2']));
      expect(await world.verdicts()).toMatchObject({ 'b-2': 'accepted', 'l-1': 'accepted' });
    } finally {
      await withAdmin((admin) => deleteTopics(admin, topics));
    }
  }));
