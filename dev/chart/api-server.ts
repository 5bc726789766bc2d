/**
 * A real API server of Kubernetes with its etcd. It accepts objects and checks them in full, but runs none by
 * itself.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../src/lib/json';
import { makeAuthority } from '../servers/certificates';
import { Child } from '../servers/child';
import { DeadlineError, until } from '../servers/deadline';
import { LOOPBACK, withFreePorts } from '../servers/ports';
import { messageOf } from '../servers/types';
import { at, listAt, type Manifest } from './objects';
import { findTool, type ToolName } from './tools';

const START_DEADLINE_MS = 60_000;
const REQUEST_DEADLINE_MS = 15_000;
const ESTABLISHED_DEADLINE_MS = 30_000;
/** The host name of its certificate. */
const HOST = 'localhost';
/** The owner of the applied fields. */
const FIELD_MANAGER = 'chart-test';

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  /** Problems for which the server warns, but accepts the object. */
  readonly warnings: readonly string[];
}

export class ApiServer {
  private readonly children: Child[] = [];
  readonly directory = mkdtempSync(join(tmpdir(), 'api-server-'));
  private readonly token = randomBytes(16).toString('hex');
  private readonly paths = new Map<string, Promise<string>>();
  private readonly authority = makeAuthority('api-server-test');
  private port = 0;

  /** @param further arguments of the API server */
  constructor(private readonly further: readonly string[] = []) {}

  /** @throws if it is not ready in time, with the end of its log */
  async start(): Promise<void> {
    const file = (name: string) => join(this.directory, name);
    const key = generateKeyPairSync('rsa', { modulusLength: 2048 });
    writeFileSync(file('key'), key.privateKey.export({ type: 'pkcs8', format: 'pem' }));
    writeFileSync(file('key.pub'), key.publicKey.export({ type: 'spki', format: 'pem' }));
    const certificate = this.authority.sign('kube-apiserver', { host: HOST });
    writeFileSync(file('ca.crt'), this.authority.ca);
    writeFileSync(file('tls.crt'), certificate.cert);
    writeFileSync(file('tls.key'), certificate.key, { mode: 0o600 });
    writeFileSync(file('tokens.csv'), `${this.token},admin,admin,system:masters\n`, { mode: 0o600 });
    await withFreePorts(3, async ([client, peer, port]) => {
      await this.stopChildren();
      const [store, other] = [client, peer].map((each) => `http://${LOOPBACK}:${each}`);
      const etcd = this.run('etcd', [
        ...['--data-dir', file(`etcd-${client}`), '--unsafe-no-fsync', '--log-level', 'warn'],
        ...['--listen-client-urls', `${store}`, '--advertise-client-urls', `${store}`],
        ...['--listen-peer-urls', `${other}`, '--initial-advertise-peer-urls', `${other}`],
        ...['--initial-cluster', `default=${other}`],
      ]);
      const server = this.run('kube-apiserver', [
        ...['--etcd-servers', `${store}`, '--secure-port', `${port}`, '--bind-address', LOOPBACK],
        ...[
          '--tls-cert-file',
          file('tls.crt'),
          '--tls-private-key-file',
          file('tls.key'),
          '--token-auth-file',
          file('tokens.csv'),
        ],
        ...['--authorization-mode', 'RBAC', '--service-cluster-ip-range', '10.96.0.0/16'],
        ...[
          '--service-account-issuer',
          'https://kubernetes.default.svc',
          '--service-account-key-file',
          file('key.pub'),
        ],
        ...['--service-account-signing-key-file', file('key'), '--advertise-address', LOOPBACK],
        // A controller of its own would have to fill these endpoints.
        ...['--endpoint-reconciler-type', 'none', ...this.further],
      ]);
      this.port = port ?? 0;
      let answer: unknown;
      const isReady = async (): Promise<boolean> => {
        for (const child of [etcd, server])
          if (child.endedBy !== undefined) throw child.failure(`ended while starting (${child.endedBy})`);
        answer = await this.request('GET', '/readyz').catch(messageOf);
        return at(answer, 'status') === 200;
      };
      await until('the API server is ready', START_DEADLINE_MS, isReady).catch((error: unknown) => {
        throw error instanceof DeadlineError
          ? server.failure(`${error.message}: ${JSON.stringify(answer)}`)
          : error;
      });
    });
  }

  async stop(): Promise<void> {
    await this.stopChildren();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** The path of a kubeconfig file for Helm. */
  kubeconfig(): string {
    const path = join(this.directory, 'kubeconfig.json');
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'here',
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'admin' } }],
      clusters: [
        {
          name: 'here',
          cluster: {
            server: `https://${HOST}:${this.port}`,
            'certificate-authority': join(this.directory, 'ca.crt'),
          },
        },
      ],
      users: [{ name: 'admin', user: { token: this.token } }],
    };
    writeFileSync(path, JSON.stringify(config), { mode: 0o600 });
    return path;
  }

  /** Server-side apply, as `kubectl apply --server-side`: unknown fields are refused. */
  async apply(manifest: Manifest): Promise<Answer> {
    const path = `${await this.pathOf(manifest)}/${at(manifest, 'metadata.name')}`;
    return this.request('PATCH', `${path}?fieldManager=${FIELD_MANAGER}&fieldValidation=Strict`, manifest);
  }

  async get(manifest: Manifest): Promise<Answer> {
    return this.request('GET', `${await this.pathOf(manifest)}/${at(manifest, 'metadata.name')}`);
  }

  /** Registers the kinds of a definition. */
  async define(definition: Manifest): Promise<void> {
    const { status, body } = await this.apply(definition);
    if (status >= 300) throw new Error(JSON.stringify(body));
    await until('the definition is established', ESTABLISHED_DEADLINE_MS, async () => {
      const conditions = listAt((await this.get(definition)).body, 'status.conditions');
      return conditions.some((each) => at(each, 'type') === 'Established' && at(each, 'status') === 'True');
    });
  }

  private run(name: ToolName, args: readonly string[]): Child {
    const found = findTool(name);
    if ('problem' in found) throw new Error(found.problem);
    const { directory } = this;
    const child = new Child(
      {
        name,
        file: found.path,
        args,
        directory,
        environment: { PATH: process.env.PATH },
        logFile: join(directory, `${name}.log`),
        stopSignal: 'SIGTERM',
      },
      () => {},
    );
    this.children.push(child);
    return child;
  }

  /** Stops the API server before its etcd. */
  private async stopChildren(): Promise<void> {
    for (const child of this.children.splice(0).reverse()) await child.stop();
  }

  /** The path of objects of this kind. */
  private async pathOf(manifest: Manifest): Promise<string> {
    const [version, kind] = [String(manifest.apiVersion), String(manifest.kind)];
    const known = this.paths.get(`${version} ${kind}`) ?? this.discover(version, kind);
    this.paths.set(`${version} ${kind}`, known);
    return (await known).replace('NAMESPACE', String(at(manifest, 'metadata.namespace')));
  }

  private async discover(version: string, kind: string): Promise<string> {
    const base = version.includes('/') ? `/apis/${version}` : `/api/${version}`;
    const { body } = await this.request('GET', base);
    const resource = listAt(body, 'resources').find(
      (each) => at(each, 'kind') === kind && !String(at(each, 'name')).includes('/'),
    );
    if (resource === undefined) throw new Error(`the API server knows no ${kind} of ${version}`);
    const inNamespace = at(resource, 'namespaced') === true ? '/namespaces/NAMESPACE' : '';
    return `${base}${inNamespace}/${at(resource, 'name')}`;
  }

  private request(method: string, path: string, body?: Manifest): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = request(
        {
          host: LOOPBACK,
          port: this.port,
          method,
          path,
          timeout: REQUEST_DEADLINE_MS,
          ca: this.authority.ca,
          servername: HOST,
          headers: {
            authorization: `Bearer ${this.token}`,
            ...(body === undefined ? {} : { 'content-type': 'application/apply-patch+yaml' }),
          },
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (part: string) => {
            text += part;
          });
          response.on('end', () => {
            const warning = response.headers.warning ?? '';
            const warnings = [...warning.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g)].map(
              ([, each = '']) => each,
            );
            resolve({ status: response.statusCode ?? 0, body: jsonOf(text), warnings });
          });
        },
      );
      outgoing.once('timeout', () => outgoing.destroy(new Error(`no answer to ${method} ${path}`)));
      outgoing.once('error', reject);
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

/** Text that is no JSON, such as the answer of /readyz, is returned as it is. */
function jsonOf(text: string): unknown {
  try {
    const json: unknown = JSON.parse(text);
    return isObject(json) ? json : text;
  } catch {
    return text;
  }
}
