/** An authorization server for tests: gives signed tokens to one client (RFC 6749, 4.4), and says by which key they are signed. */
import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface TokenServer {
  readonly tokenUrl: string;
  /** Where tokens come from that somebody else signed. */
  readonly forgedUrl: string;
  /** Where a broker finds the key. */
  readonly keysUrl: string;
  /** What the client has to show from now on. */
  clientSecret: string;
  /** How long the tokens are good that it gives from now on. */
  lifetimeSeconds: number;
  /** Every token that it gave. */
  readonly given: readonly string[];
  /** The scopes that it was asked for. */
  readonly scopes: readonly (string | null)[];
  close(): Promise<void>;
}

/** Who signs the tokens. */
export const ISSUER = 'https://login.test';

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

export async function startTokenServer(
  clientId: string,
  clientSecret: string,
  audience: string,
): Promise<TokenServer> {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const forger = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const given: string[] = [];
  const scopes: (string | null)[] = [];

  function makeToken(signer: KeyObject): string {
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      iss: ISSUER,
      sub: clientId,
      aud: audience,
      iat: now,
      exp: now + tokenServer.lifetimeSeconds,
      jti: randomUUID(),
    };
    const content = `${base64url({ alg: 'RS256', typ: 'JWT', kid: 'one' })}.${base64url(claims)}`;
    return `${content}.${sign('sha256', Buffer.from(content), signer).toString('base64url')}`;
  }

  const server = createServer(async (request, response) => {
    const answer = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (request.url === '/keys') {
      answer(200, {
        keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' }],
      });
      return;
    }
    const form = new URLSearchParams(await text(request));
    const credentials = Buffer.from(`${clientId}:${tokenServer.clientSecret}`).toString('base64');
    if (request.headers.authorization !== `Basic ${credentials}`) {
      // As some servers do: they repeat what they were shown.
      answer(401, { error: 'invalid_client', error_description: request.headers.authorization });
      return;
    }
    if (request.method !== 'POST' || form.get('grant_type') !== 'client_credentials') {
      answer(400, { error: 'unsupported_grant_type' });
      return;
    }
    scopes.push(form.get('scope'));
    const token = makeToken(request.url === '/forged' ? forger.privateKey : privateKey);
    given.push(token);
    answer(200, { access_token: token, token_type: 'Bearer', expires_in: tokenServer.lifetimeSeconds });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port }: AddressInfo = addressOf(server.address());
  const tokenServer: TokenServer = {
    tokenUrl: `http://127.0.0.1:${port}/token`,
    forgedUrl: `http://127.0.0.1:${port}/forged`,
    keysUrl: `http://127.0.0.1:${port}/keys`,
    clientSecret,
    lifetimeSeconds: 3600,
    given,
    scopes,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return tokenServer;
}

function addressOf(address: AddressInfo | string | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('the token server has no port');
  return address;
}
