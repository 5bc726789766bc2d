/** Certificates for one test run: an authority, and the certificates that it signs. All in PEM. */
import { constants, generateKeyPairSync, privateEncrypt, randomBytes } from 'node:crypto';
import { md, pki } from 'node-forge';

const DAY_MS = 86_400_000;
const RSA_BITS = 2048;
/** The tag of a DNS name among the choices of a GeneralName (RFC 5280, 4.2.1.6). */
const DNS_NAME = 2;
/** What PKCS#1 puts before a SHA-256 digest that is signed (RFC 8017, 9.2). */
const SHA256_DIGEST_INFO = Buffer.from('3031300d060960864801650304020105000420', 'hex');

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
    certificate.sign(signingKey(issuer.key), md.sha256.create());
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

/**
 * A key of node-forge that signs by Node. The RSA of node-forge is JavaScript, and takes three seconds a
 * signature inside Jest.
 */
function signingKey(pem: string): pki.rsa.PrivateKey {
  const key = pki.privateKeyFromPem(pem);
  key.sign = (digest) => {
    if (typeof digest === 'string') throw new Error('a digest of node-forge was expected');
    const info = Buffer.concat([SHA256_DIGEST_INFO, Buffer.from(digest.digest().getBytes(), 'latin1')]);
    return privateEncrypt({ key: pem, padding: constants.RSA_PKCS1_PADDING }, info).toString('latin1');
  };
  return key;
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
