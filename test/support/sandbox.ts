/** The sandbox as developers run it, and a client that signs its calls. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../src/lib/json';
import { signCall } from '../../src/sandbox/authentication';
import { ONE_REQUEST, RunningCommand, type Settings } from './worker';

const ANSWER_DEADLINE_MS = 60_000;
export const SANDBOX_SECRET = 'the-secret-of-the-sandbox';

export interface SandboxReply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>>;
  /** The words of an error; empty in a success. */
  readonly message: string;
}

export interface CallOptions {
  readonly method?: string;
  readonly key?: string;
  readonly secret?: string;
  /** Seconds since 1970. */
  readonly timestamp?: string;
  /** Undefined: a header that is not sent. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

export type SandboxClient = (path: string, body: unknown, options?: CallOptions) => Promise<SandboxReply>;

/** Signs calls. A text is sent unchanged. */
export function clientOf(port: number): SandboxClient {
  return async (path, content, options = {}) => {
    const { method = 'POST', key = 'acme-key', secret = SANDBOX_SECRET } = options;
    const { timestamp = String(Math.floor(Date.now() / 1_000)) } = options;
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    const headers: Record<string, string | undefined> = {
      ...ONE_REQUEST,
      'content-type': 'application/json',
      'x-api-key-id': key,
      'x-timestamp': timestamp,
      'x-signature': signCall(secret, timestamp, { method, path, body: Buffer.from(text) }),
      ...options.headers,
    };
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: Object.entries(headers).flatMap(([name, value]): [string, string][] =>
        value === undefined ? [] : [[name, value]],
      ),
      ...(method === 'GET' ? {} : { body: text }),
      signal: AbortSignal.timeout(ANSWER_DEADLINE_MS),
    });
    const body: unknown = JSON.parse(await response.text());
    if (!isObject(body)) throw new Error('the sandbox answered no object');
    const message = typeof body.message === 'string' ? body.message : '';
    return { status: response.status, headers: response.headers, body, message };
  };
}

export interface RunningSandbox {
  readonly command: RunningCommand;
  readonly port: number;
  readonly call: SandboxClient;
}

/** A directory with the file of a sandbox and the secrets that it names. */
export class SandboxFiles {
  readonly directory = mkdtempSync(join(tmpdir(), 'sandbox-'));

  constructor() {
    this.write('sandbox.secret', SANDBOX_SECRET);
  }

  /** @returns the path */
  write(name: string, text: string): string {
    const path = join(this.directory, name);
    writeFileSync(path, text);
    return path;
  }

  remove(): void {
    rmSync(this.directory, { recursive: true });
  }
}

/** Starts `sandbox` on a free port, and waits until it answers. */
export async function startSandbox(file: string, settings: Settings): Promise<RunningSandbox> {
  const command = new RunningCommand(['sandbox', '--file', file, '--port', '0'], {
    LOG_LEVEL: 'debug',
    ...settings,
  });
  const { port } = await command.waitForLog('sandbox started');
  return { command, port: Number(port), call: clientOf(Number(port)) };
}
