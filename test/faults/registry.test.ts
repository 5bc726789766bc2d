/**
 * Faults of the schema registry: each leaves a framed record undecided, except an id that the registry does
 * not know.
 */
import { createServer, request as httpRequest, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { framed, TestRegistry } from '../stream/registry';
import { sideBySide } from '../stream/side-by-side';
import { inWorld } from '../stream/world';
import { aLogin, bytesOf } from '../support/builders';
import { produce } from '../support/kafka';
import { schemaRegistryUrl } from '../support/servers';
import { allAcceptedOnce, untilCaughtUp, verifySound } from './promises';

const together = sideBySide(5);

type Answer = (response: ServerResponse) => void;
const answer =
  (status: number, body: string): Answer =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };

/** Answers in the registry's place while an answer is set, and forwards to the registry otherwise. */
async function inFrontOfRegistry() {
  const registry = new URL(schemaRegistryUrl());
  const state: { instead: Answer | null } = { instead: null };
  const server = createServer((incoming, response) => {
    if (state.instead !== null) {
      state.instead(response);
      return;
    }
    const { url, method, headers } = incoming;
    const onward = httpRequest(new URL(url ?? '/', registry.origin), { method, headers }, (answered) => {
      response.writeHead(answered.statusCode ?? 502, answered.headers);
      answered.pipe(response);
    });
    onward.on('error', () => response.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return {
    state,
    url: `http://127.0.0.1:${address.port}${registry.pathname}`,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Faults of the registry, with the log text of each. */
const FAULTS: Readonly<Record<string, readonly [Answer | 'closed', RegExp]>> = {
  'is down': ['closed', /registry/],
  'takes longer than five seconds': [() => undefined, /registry/],
  'answers 500': [answer(500, '{"error_code":50001,"message":"Error in the backend data store"}'), /500/],
  'answers 404 without the code of an unknown id': [answer(404, '<html>not here</html>'), /404/],
};

for (const [fault, [instead, error]] of Object.entries(FAULTS)) {
  together(
    `a registry that ${fault}: its records wait, others continue, and all are decided once it answers [S3 U2 U3]`,
    async () => {
      const id = await new TestRegistry(schemaRegistryUrl()).jsonSchema();
      const front = await inFrontOfRegistry();
      try {
        await inWorld(
          { topics: { main: 2 }, settings: { SCHEMA_REGISTRY_URL: front.url } },
          async (world) => {
            const { main } = world.topics;
            front.state.instead = instead === 'closed' ? (response) => response.destroy() : instead;
            await produce(main, [
              { value: framed(id, bytesOf(aLogin({ event_id: 'framed' }))), partition: 0 },
              { value: bytesOf(aLogin({ event_id: 'behind' })), partition: 0 },
              { value: bytesOf(aLogin({ event_id: 'beside' })), partition: 1 },
            ]);
            const worker = await world.started();
            await world.untilDecided(1);
            const line = await worker.waitForLog('partition is undecided');
            expect(line).toMatchObject({ partition: 0, error: expect.stringMatching(error) });
            expect(await worker.metric('promo_intake_undecided_partitions')).toBe(1);
            expect(await world.verdicts()).toEqual({ beside: 'accepted' });
            front.state.instead = null;
            await untilCaughtUp(world, main);
            await allAcceptedOnce(world, 3);
          },
        );
      } finally {
        await front.close();
      }
    },
  );
}

together(
  'a registry that does not know the id: the record is a dead letter, and the next one is decided [S4]',
  async () => {
    const front = await inFrontOfRegistry();
    try {
      await inWorld({ topics: { main: 1 }, settings: { SCHEMA_REGISTRY_URL: front.url } }, async (world) => {
        const { main } = world.topics;
        const unknown = framed(0x7ffffff0, bytesOf(aLogin({ event_id: 'unknown' })));
        await produce(main, [{ value: unknown }, { value: bytesOf(aLogin({ event_id: 'behind' })) }]);
        const worker = await world.started();
        await untilCaughtUp(world, main);
        expect(await world.balance()).toEqual({ records: 2, accepted: 1, dead_letters: 1 });
        expect(await worker.metric('promo_intake_dead_letters_total{reason="schema_unknown"}')).toBe(1);
        await verifySound(world);
      });
    } finally {
      await front.close();
    }
  },
);
