/** A small certificate authority: X.509 v3 certificates with P-256 keys, enough for a local control plane. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIPv4 } from "node:net";

export interface Issued {
  readonly cert: string;
  readonly key: string;
}

export interface Subject {
  readonly commonName: string;
  /** Kubernetes reads it as the group. */
  readonly organization?: string | undefined;
}

export interface CertificateAuthority extends Issued {
  issueClient(subject: Subject): Issued;
  /** `names`: host names and IPv4 addresses. */
  issueServer(commonName: string, names: readonly string[]): Issued;
}

/** A pair of PEM keys, as the service account tokens are signed and checked with. */
export function createKeyPair(): { publicKey: string; privateKey: string } {
  const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { publicKey: toPublicPem(pair.publicKey), privateKey: toPrivatePem(pair.privateKey) };
}

export function createCertificateAuthority(commonName: string): CertificateAuthority {
  const authority = { commonName };
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const issue = (subject: Subject, extensions: Buffer[]): Issued => {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const cert = certificate(authority, privateKey, subject, pair.publicKey, [basicConstraints(false), ...extensions]);
    return { cert, key: toPrivatePem(pair.privateKey) };
  };
  const own = [basicConstraints(true), keyUsage(0x06, 1)]; // keyCertSign, cRLSign
  return {
    cert: certificate(authority, privateKey, authority, publicKey, own),
    key: toPrivatePem(privateKey),
    issueClient: (subject) => issue(subject, [keyUsage(0x80, 7), extendedKeyUsage("1.3.6.1.5.5.7.3.2")]),
    issueServer: (name, names) =>
      issue({ commonName: name }, [
        keyUsage(0x80, 7), // digitalSignature
        extendedKeyUsage("1.3.6.1.5.5.7.3.1"),
        subjectAltNames(names),
      ]),
  };
}

const validForMs = 10 * 365 * 24 * 3_600_000;
const ecdsaWithSha256 = sequence(oid("1.2.840.10045.4.3.2"));

function certificate(
  issuer: Subject,
  signer: KeyObject,
  subject: Subject,
  key: KeyObject,
  extensions: Buffer[],
): string {
  const now = Date.now();
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))), // version 3
    integer(Buffer.concat([Buffer.from([0x01]), randomBytes(15)])), // serial number, positive
    ecdsaWithSha256,
    distinguishedName(issuer),
    sequence(utcTime(now - 3_600_000), utcTime(now + validForMs)),
    distinguishedName(subject),
    key.export({ type: "spki", format: "der" }),
    tagged(0xa3, sequence(...extensions)),
  );
  const der = sequence(body, ecdsaWithSha256, bitString(sign("sha256", body, signer), 0));
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function toPrivatePem(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}

function toPublicPem(key: KeyObject): string {
  return key.export({ type: "spki", format: "pem" }).toString();
}

// Extensions

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  const parts = [oid(id), ...(critical ? [tagged(0x01, Buffer.from([0xff]))] : []), tagged(0x04, value)];
  return sequence(...parts);
}

function basicConstraints(authority: boolean): Buffer {
  return extension("2.5.29.19", true, authority ? sequence(tagged(0x01, Buffer.from([0xff]))) : sequence());
}

function keyUsage(bits: number, unused: number): Buffer {
  return extension("2.5.29.15", true, bitString(Buffer.from([bits]), unused));
}

function extendedKeyUsage(purpose: string): Buffer {
  return extension("2.5.29.37", false, sequence(oid(purpose)));
}

function subjectAltNames(names: readonly string[]): Buffer {
  const entries = names.map((name) =>
    isIPv4(name) ? tagged(0x87, Buffer.from(name.split(".").map(Number))) : tagged(0x82, Buffer.from(name)),
  );
  return extension("2.5.29.17", false, sequence(...entries));
}

// DER, the few types of it that certificates need

function tagged(tag: number, ...parts: Buffer[]): Buffer {
  const value = Buffer.concat(parts);
  const size: number[] = [];
  for (let rest = value.length; rest > 0; rest >>= 8) size.unshift(rest & 0xff);
  const length = value.length < 0x80 ? [value.length] : [0x80 | size.length, ...size];
  return Buffer.concat([Buffer.from([tag, ...length]), value]);
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, ...parts);
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes);
}

function bitString(bytes: Buffer, unused: number): Buffer {
  return tagged(0x03, Buffer.from([unused]), bytes);
}

function utcTime(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return tagged(0x17, Buffer.from(text.slice(2)));
}

function distinguishedName({ commonName, organization }: Subject): Buffer {
  const entry = (id: string, text: string) => tagged(0x31, sequence(oid(id), tagged(0x0c, Buffer.from(text))));
  const group = organization === undefined ? [] : [entry("2.5.4.10", organization)];
  return sequence(...group, entry("2.5.4.3", commonName));
}

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const group = [arc & 0x7f];
    for (let more = arc >> 7; more > 0; more >>= 7) group.unshift(0x80 | (more & 0x7f));
    bytes.push(...group);
  }
  return tagged(0x06, Buffer.from(bytes));
}
