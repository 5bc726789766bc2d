/**
 * `promo-intake sign FILE`: signs a body as the webhook expects it, and explains the signature. With --verify
 * it names the part of a given request that differs.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { MAX_BYTES, MAX_EVENTS, MAX_VALUES } from '../../check/request-limits';
import { DONE, FAILED } from '../../cli/exit-codes';
import { readBoth, wrongOption } from '../../cli/option-values';
import { print } from '../../cli/output';
import { readConfig } from '../../config/config';
import type { WebhookSecrets } from '../../config/webhook';
import { readBody } from '../../domain/event/request-body';
import { counted, inOneLine, quoted } from '../../lib/printable';
import { requestAddress } from '../../webhook/client';
import {
  expiryOf,
  isTimely,
  readSignedHeaders,
  SIGNATURE_HEADERS,
  type SignedHeaders,
  sign,
  TIMESTAMP_WINDOW_SECONDS,
  validSignature,
} from '../../webhook/signature';
import { describeSkew, missingHeaders, mistakeOfForm } from '../../webhook/signature-mistakes';
import { findDifferences } from '../../webhook/signature-search';
import { SEND_SETTINGS } from '../shared/settings';
import { addressOf, secretsOf } from './webhook-target';

export interface SignCommandOptions {
  /** The body of the request. */
  readonly file: string;
  readonly connection: string;
  readonly url: string;
  readonly id: string | undefined;
  readonly timestamp: string | undefined;
  /** The body asks for the standing of events, and sends none. */
  readonly isQuestion: boolean;
  /** A file with the headers of a request. Its signature is checked, and none is made. */
  readonly verify: string | undefined;
}

/** @returns the exit code: 1 where the given request is not signed as the webhook expects */
export async function signRequest({ file, verify, ...options }: SignCommandOptions): Promise<number> {
  const [url, secrets] = readBoth(
    () => addressOf(options.url),
    () => secretsOf(readConfig(process.env, SEND_SETTINGS).WEBHOOK_SECRETS, options.connection),
  );
  const body = await readFile(file);
  if (!options.isQuestion) for (const problem of problemsOf(body)) console.error(`${file}: ${problem}`);
  if (verify !== undefined) return verifyRequest(verify, { file, body, secrets, ...options });
  const id = options.id ?? `msg_${randomUUID()}`;
  if (!/^[\x21-\x7e]+$/.test(id))
    throw wrongOption(
      'id',
      `${quoted(id)} cannot be a header`,
      'Write visible ASCII characters without spaces',
    );
  const timestamp = options.timestamp ?? String(Math.floor(Date.now() / 1000));
  const signed = { id, timestamp, signatures: [] };
  if (!/^\d{1,12}$/.test(timestamp))
    throw wrongOption('timestamp', describeSkew(signed, Date.now()), 'Write seconds since 1970');
  const [secret = Buffer.alloc(0), ...more] = secrets.get(options.connection) ?? [];
  const signature = sign(secret, signed, body);
  const to = requestAddress(url, options.connection, options.isQuestion ? 'reconcile' : 'events').href;
  const headers = {
    [SIGNATURE_HEADERS.id]: id,
    [SIGNATURE_HEADERS.timestamp]: timestamp,
    [SIGNATURE_HEADERS.signature]: signature,
  };
  const curl = [
    `curl -sS -X POST ${shell(to)}`,
    ...Object.entries({ 'content-type': 'application/json', ...headers }).map(
      ([name, value]) => `-H ${shell(`${name}: ${value}`)}`,
    ),
    `--data-binary ${shell(`@${file}`)}`,
  ];
  await print(
    [
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      '',
      'The signature is "v1,", and behind it the base64 of HMAC-SHA256 over these bytes:',
      `  ${id}.${timestamp}.  webhook-id, a dot, webhook-timestamp, a dot: ${counted(Buffer.byteLength(`${id}.${timestamp}.`), 'byte')}`,
      `  the body: the ${counted(body.length, 'byte')} of ${inOneLine(file)}, unchanged, the last line break too`,
      `  SHA-256 of the body: ${createHash('sha256').update(body).digest('hex')}`,
      `The key is the ${secret.length} bytes of the base64 behind whsec_${more.length > 0 ? `; the first of ${more.length + 1} secrets of the connection` : ''}.`,
      `The webhook takes the request until ${new Date(expiryOf(signed)).toISOString()}, and from ${TIMESTAMP_WINDOW_SECONDS} s before its time on.`,
      'The path is not signed. Each new request needs a new webhook-id; a retry keeps it.',
      '',
      curl.join(' \\\n  '),
      '',
    ].join('\n'),
  );
  return DONE;
}

interface Given {
  readonly file: string;
  readonly body: Buffer;
  readonly secrets: WebhookSecrets;
  readonly connection: string;
}

async function verifyRequest(file: string, { body, secrets, connection, ...given }: Given): Promise<number> {
  const headers = headersIn(await readFile(file, 'latin1'));
  const signed = readSignedHeaders(headers);
  if (signed === null) {
    await print(
      `differs: headers: ${missingHeaders(headers)}: send webhook-id, webhook-timestamp and webhook-signature\n`,
    );
    return FAILED;
  }
  const faults: string[] = [];
  if (!isTimely(signed, Date.now()))
    faults.push(
      `differs: webhook-timestamp: ${describeSkew(signed, Date.now())}: send seconds since 1970, and a new time with each try`,
    );
  const own = secrets.get(connection) ?? [];
  const made = validSignature(own, signed, body);
  if (made === null)
    faults.push(...explainSignature({ connectionId: connection, secrets }, signed, body, given.file));
  const place = own.findIndex((secret) => made !== null && sign(secret, signed, body) === made);
  const secret = own.length > 1 ? `secret ${place + 1} of ${own.length}` : 'the secret';
  await print(
    [
      ...(made === null
        ? []
        : [
            `signature: right, made with ${secret} of ${inOneLine(connection)} over ${counted(body.length, 'byte')} of body`,
          ]),
      ...faults,
      '',
    ].join('\n'),
  );
  return faults.length === 0 ? DONE : FAILED;
}

/** Names the mistakes of form and the parts that differ. At least one line. */
function explainSignature(
  known: { readonly connectionId: string; readonly secrets: WebhookSecrets },
  signed: SignedHeaders,
  body: Buffer,
  file: string,
): string[] {
  const forms = new Set(signed.signatures.map(mistakeOfForm).filter((mistake) => mistake !== null));
  const found = findDifferences(known, signed, body) ?? [];
  const lines = [...forms, ...found].map((each) => `differs: webhook-signature: ${each}`);
  if (lines.length > 0) return lines;
  return [
    `differs: webhook-signature: no known mistake explains it: check the secret of ${inOneLine(known.connectionId)}, and that ${inOneLine(file)} has exactly the bytes that were sent (SHA-256 ${createHash('sha256').update(body).digest('hex')})`,
  ];
}

/** The headers of a dump: `name: value` in each line, with or without the `> ` of curl -v. */
function headersIn(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of text.split(/\r?\n/)) {
    const [, name, value] = /^(?:> )?([\w-]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) headers[name.toLowerCase()] = value;
  }
  return headers;
}

/** The reasons for which the webhook would refuse the body, however it is signed. */
function problemsOf(body: Buffer): string[] {
  if (body.length > MAX_BYTES)
    return [`it has ${body.length} bytes, more than the limit of ${MAX_BYTES}: promo-intake send divides it`];
  const read = readBody(body, { maxEvents: MAX_EVENTS, maxValues: MAX_VALUES });
  if (read.type === 'malformed') return [`the webhook would answer 400: ${read.problem}`];
  if (read.type === 'events') return [];
  return ['it has more events or values than a request may have: promo-intake send divides it'];
}

/** The text as one word of a shell. */
function shell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
