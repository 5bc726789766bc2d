/** Certificates and keys in PEM form: their settings, and the checks that they are usable. */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import {
  openFile,
  type Parse,
  type Parsed,
  type Problem,
  type Secret,
  type Setting,
  secret,
  setting,
} from './setting';

/** Options of tls.connect. Each access reads its file, so each connect uses the current files. */
export interface Tls {
  /**
   * The authorities that may have signed the server's certificate. Undefined: the authorities that Node
   * knows.
   */
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly passphrase: string | undefined;
}

/** A file whose text is read again at each call. */
type PemFile = () => string;

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const PEM = 'the text form, which begins with -----BEGIN';

/**
 * The settings that identify a server to us and us to the server.
 * @param whose the owner of the server's certificate, for the description
 */
export const caFile = (whose: string): Setting<PemFile> =>
  setting({
    describe: `File with the certificates of trusted authorities for ${whose}, in PEM form. Absent: the authorities that Node trusts.`,
    example: '/etc/promo-intake/ca.crt',
    parse: pemFile((text) => certificateProblem(text)),
  });

export const certFile = (whose: string): Setting<PemFile> =>
  setting({
    describe: `File with the client certificate for ${whose} and its intermediate certificates, for mutual TLS, in PEM form.`,
    example: '/etc/promo-intake/tls.crt',
    parse: pemFile((text) => certificateProblem(text) ?? validityProblem(text, new Date())),
  });

export const keyFile = (certificate: string): Setting<PemFile> =>
  setting({
    describe: `File with the key that belongs to ${certificate}, in PEM form.`,
    example: '/etc/promo-intake/tls.key',
    parse: pemFile((text) =>
      KEY.test(text) ? undefined : { problem: 'holds no private key', remedy: `Name a file in PEM, ${PEM}` },
    ),
  });

export const keyPassword = (key: string): Setting<Secret> =>
  secret({ describe: `Password of ${key}, if it has one.`, example: 'secret' });

function pemFile(check: (text: string) => Problem | undefined): Parse<PemFile> {
  const parse = (path: string): Parsed<PemFile> => {
    const opened = openFile(path);
    const found = 'value' in opened ? check(opened.value()) : undefined;
    return found === undefined ? opened : { ...found, problem: `the file ${path} ${found.problem}` };
  };
  return Object.assign(parse, { accepts: { file: true } as const });
}

function certificateProblem(text: string): Problem | undefined {
  const remedy = `Name a file in PEM, ${PEM} CERTIFICATE-----`;
  const found = text.match(CERTIFICATE) ?? [];
  if (found.length === 0) return { problem: 'holds no certificate', remedy };
  return found.every((pem) => isGood(() => new X509Certificate(pem)))
    ? undefined
    : { problem: 'holds a certificate that cannot be read', remedy };
}

/** Checks the first certificate of the file, which is our own. */
function validityProblem(text: string, now: Date): Problem | undefined {
  const { validFrom, validTo } = new X509Certificate(text);
  const remedy = 'Replace the certificate, or correct the clock';
  if (now > new Date(validTo)) return { problem: `holds a certificate that expired on ${validTo}`, remedy };
  if (now < new Date(validFrom))
    return { problem: `holds a certificate that is valid only from ${validFrom}`, remedy };
  return undefined;
}

/**
 * Explains why the key cannot be used with the certificate.
 * @param password the name of the setting that holds the key's password
 */
function keyProblem(
  cert: PemFile,
  key: PemFile,
  passphrase: Secret | undefined,
  password: string,
): Problem | undefined {
  let privateKey: KeyObject;
  try {
    // Without a passphrase, OpenSSL would ask for it at the terminal.
    privateKey = createPrivateKey({ key: key(), passphrase: passphrase?.() ?? '' });
  } catch {
    return passphrase === undefined
      ? { problem: 'cannot be read, or has a password', remedy: `Correct it, or set ${password}` }
      : { problem: `cannot be read with ${password}`, remedy: 'Correct one of the two' };
  }
  if (new X509Certificate(cert()).checkPrivateKey(privateKey)) return undefined;
  return { problem: 'is not the key of the certificate', remedy: 'Set two files that belong together' };
}

interface TlsReading<N extends string> {
  value(name: N): (() => string) | undefined;
  isGiven(name: N): boolean;
  need(names: readonly N[], because: string): void;
  fault(name: N, problem: string, remedy: string): void;
}

/** The TLS options that the settings with these names form. The functions above define those settings. */
export function readTls<N extends string>(
  names: Readonly<Record<'ca' | 'cert' | 'key' | 'password', N>>,
  reading: TlsReading<NoInfer<N>>,
): Tls {
  const both = [names.cert, names.key];
  if ([...both, names.password].some((name) => reading.isGiven(name)))
    reading.need(both, 'but a certificate and its key need each other');
  const [ca, cert, key] = [reading.value(names.ca), reading.value(names.cert), reading.value(names.key)];
  const password = reading.value(names.password);
  const found = cert && key && keyProblem(cert, key, password, names.password);
  if (found) reading.fault(names.key, found.problem, found.remedy);
  return {
    get ca() {
      return ca?.();
    },
    get cert() {
      return cert?.();
    },
    get key() {
      return key?.();
    },
    get passphrase() {
      return password?.();
    },
  };
}

function isGood(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch {
    return false;
  }
}
