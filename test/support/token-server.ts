/**
 * An authorization server for tests. It gives signed tokens by https to one client (RFC 6749, 4.4). It
 * publishes the signing key without TLS, so that a broker needs no certificate authority.
 */
import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import * as http from 'node:http';
import * as https from 'node:https';
import { text } from 'node:stream/consumers';
import type { Certificate } from '../../dev/servers/certificates';
import { serve } from './serve';

export interface TokenServer {
  readonly tokenUrl: string;
  /** The address of tokens with the signature of another issuer. */
  readonly forgedUrl: string;
  /** The address where a broker finds the key. */
  readonly keysUrl: string;
  /** The secret that the client has to present from now on. */
  clientSecret: string;
  /** The lifetime of tokens given from now on. */
  lifetimeSeconds: number;
  /** Every token that the server gave. */
  readonly given: readonly string[];
  /** The scopes that clients requested. */
  readonly scopes: readonly (string | null)[];
  close(): Promise<void>;
}

/** The issuer of the tokens. */
export const ISSUER = 'https://login.test';

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

export async function startTokenServer(
  clientId: string,
  clientSecret: string,
  audience: string,
  certificate: Certificate,
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

  const keys = await serve(
    http.createServer((_, response) => {
      const key = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' };
      answer(response, 200, { keys: [key] });
    }),
  );
  const tokens = await serve(
    https.createServer({ ...certificate }, async (request, response) => {
      const form = new URLSearchParams(await text(request));
      const credentials = Buffer.from(`${clientId}:${tokenServer.clientSecret}`).toString('base64');
      if (request.headers.authorization !== `Basic ${credentials}`) {
        // Some servers repeat the credentials in their error.
        answer(response, 401, { error: 'invalid_client', error_description: request.headers.authorization });
        return;
      }
      if (request.method !== 'POST' || form.get('grant_type') !== 'client_credentials') {
        answer(response, 400, { error: 'unsupported_grant_type' });
        return;
      }
      scopes.push(form.get('scope'));
      const token = makeToken(request.url === '/forged' ? forger.privateKey : privateKey);
      given.push(token);
      const seconds = tokenServer.lifetimeSeconds;
      answer(response, 200, { access_token: token, token_type: 'Bearer', expires_in: seconds });
    }),
  );
  const tokenServer: TokenServer = {
    tokenUrl: `https://localhost:${tokens.port}/token`,
    forgedUrl: `https://localhost:${tokens.port}/forged`,
    keysUrl: `http://127.0.0.1:${keys.port}/keys`,
    clientSecret,
    lifetimeSeconds: 3600,
    given,
    scopes,
    async close() {
      await Promise.all([keys.close(), tokens.close()]);
    },
  };
  return tokenServer;
}

function answer(response: http.ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
