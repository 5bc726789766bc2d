/** Answers that their senders do not read, on a running webhook over a real Postgres. */
import { until } from '../../dev/servers/deadline';
import { dropped } from '../stream/scene';
import { connectionOf, inWorld } from '../stream/world';
import { aLogin, anOperator } from '../support/builders';
import { dial, type Line, signedText } from '../support/raw-http';
import { aSecret, type RunningWebhook, senderTo, startWebhook } from '../support/webhook';
import { killWorkers } from '../support/worker';

afterEach(killWorkers);

const secrets = { 'hostile-1': aSecret(), 'hostile-2': aSecret(), good: aSecret() };
type Id = keyof typeof secrets;
const HOSTILE = ['hostile-1', 'hostile-2'] as const satisfies readonly Id[];
const LONG = 60_000;
/** As many as the webhook takes of one network connection. */
const PIPELINED = 16;

/** Two operators: one has two connections of the webhook, and one has a single connection. */
async function withTwoOperators(work: (webhook: RunningWebhook) => Promise<void>): Promise<void> {
  const hook = (id: Id) => ({ id, transport: 'webhook' as const });
  const operators = (topics: Readonly<Record<string, string>>) => [
    anOperator({ id: 'hostile', connections: HOSTILE.map(hook) }),
    anOperator({
      id: 'good',
      connections: [...Object.values(topics).map((topic) => connectionOf(topic)), hook('good')],
    }),
  ];
  await inWorld({ topics: { main: 1 }, operators }, async (world) => {
    await work(await startWebhook({ DATABASE_URL: world.writerUrl }, secrets));
  });
}

/** Sends a request again and again over a connection that reads nothing. */
function sendUnread(port: number, text: string): Line {
  const line = dial(port);
  line.socket.pause();
  for (let sent = 0; sent < PIPELINED; sent++) line.socket.write(text);
  return line;
}

/** The body of a request whose answer has a megabyte. */
const largeBody = () =>
  JSON.stringify({
    events: Array.from({ length: 450 }, (_, n) => ({ event_id: `${n}-${'e'.repeat(2_000)}` })),
  });

test('unread answers to one operator hold no place that another operator waits for [W8]', () =>
  withTwoOperators(async ({ command, port }) => {
    const body = largeBody();
    // Signed once: the answer comes again from memory.
    const texts = HOSTILE.map((id) => signedText({ connectionId: id, secret: secrets[id], body }));
    const flood = () => texts.flatMap((text) => Array.from({ length: 4 }, () => sendUnread(port, text)));
    const send = senderTo(port, 'good', secrets.good);
    const lines = flood();
    // The kernel takes the first megabytes of each connection, so the first answers do leave.
    await until('a place is needed', LONG, async () => (await dropped(command, 'unread')) > 0);
    for (let round = 0; round < 3; round++) {
      const { status, text } = await send(aLogin());
      expect([status, text]).toEqual([200, expect.stringContaining('accepted')]);
      lines.push(...flood());
    }
    for (const { socket } of lines) socket.destroy();
  }));
