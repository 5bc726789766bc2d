/** Certificates for one test run: an authority, and the certificates that it signs. All in PEM. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { md, pki } from 'node-forge';

const DAY_MS = 86_400_000;
const RSA_BITS = 2048;
/** The tag of a DNS name among the choices of a GeneralName (RFC 5280, 4.2.1.6). */
const DNS_NAME = 2;

export interface Certificate {
  readonly cert: string;
  /** In PKCS#8, as Kafka requires. */
  readonly key: string;
}

export interface CertificateOptions {
  /** The one host name of a server; none for a client. */
  readonly host?: string;
  readonly expired?: boolean;
}

export interface Authority {
  /** The certificate of the authority itself. */
  readonly ca: string;
  sign(commonName: string, options?: CertificateOptions): Certificate;
}

export function makeAuthority(name: string): Authority {
  const issuer = makeKeys();
  const sign = (certificate: pki.Certificate): string => {
    certificate.setIssuer(nameOf(name));
    certificate.sign(pki.privateKeyFromPem(issuer.key), md.sha256.create());
    return pki.certificateToPem(certificate).replaceAll('\r', '');
  };
  const own = makeCertificate(name, issuer.publicKey);
  own.setExtensions([
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, critical: true },
  ]);
  return {
    ca: sign(own),
    sign(commonName, { host, expired = false } = {}) {
      const { publicKey, key } = makeKeys();
      const certificate = makeCertificate(commonName, publicKey);
      if (expired) certificate.validity.notAfter = new Date(Date.now() - DAY_MS);
      certificate.setExtensions([
        { name: 'basicConstraints', cA: false },
        { name: 'extKeyUsage', serverAuth: host !== undefined, clientAuth: host === undefined },
        ...(host === undefined
          ? []
          : [{ name: 'subjectAltName', altNames: [{ type: DNS_NAME, value: host }] }]),
      ]);
      return { cert: sign(certificate), key };
    },
  };
}

/** An unsigned certificate, valid since two days ago, for a month. */
function makeCertificate(commonName: string, publicKey: string): pki.Certificate {
  const certificate = pki.createCertificate();
  certificate.publicKey = pki.publicKeyFromPem(publicKey);
  // The prefix keeps the number positive.
  certificate.serialNumber = `01${randomBytes(8).toString('hex')}`;
  certificate.validity.notBefore = new Date(Date.now() - 2 * DAY_MS);
  certificate.validity.notAfter = new Date(Date.now() + 30 * DAY_MS);
  certificate.setSubject(nameOf(commonName));
  return certificate;
}

const nameOf = (commonName: string) => [{ name: 'commonName', value: commonName }];

function makeKeys(): { publicKey: string; key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: RSA_BITS,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  return { publicKey, key: privateKey };
}
