/** A small certificate authority: X.509 v3 certificates with P-256 keys, enough for a local control plane. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIPv4 } from "node:net";
import { bits, integer, octets, oid, plain, sequence, set, tagged, time, utf8, yes } from "../../src/overrides/der.ts";

export interface Issued {
  readonly cert: string;
  readonly key: string;
}

export interface Subject {
  readonly commonName: string;
  /** Kubernetes treats it as the group. */
  readonly organization?: string | undefined;
}

export interface CertificateAuthority extends Issued {
  issueClient(subject: Subject): Issued;
  /** `names` are host names and IPv4 addresses. */
  issueServer(commonName: string, names: readonly string[]): Issued;
}

/** Creates a pair of PEM keys for signing and verifying service account tokens. */
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
    tagged(0, integer(Buffer.from([2]))), // version 3
    integer(randomBytes(16)), // serial number
    ecdsaWithSha256,
    distinguishedName(issuer),
    sequence(time(new Date(now - 3_600_000)), time(new Date(now + validForMs))),
    distinguishedName(subject),
    key.export({ type: "spki", format: "der" }),
    tagged(3, sequence(...extensions)),
  );
  const der = sequence(body, ecdsaWithSha256, bits(sign("sha256", body, signer)));
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
  return sequence(oid(id), ...(critical ? [yes] : []), octets(value));
}

function basicConstraints(authority: boolean): Buffer {
  return extension("2.5.29.19", true, authority ? sequence(yes) : sequence());
}

function keyUsage(purposes: number, unused: number): Buffer {
  return extension("2.5.29.15", true, bits(Buffer.from([purposes]), unused));
}

function extendedKeyUsage(purpose: string): Buffer {
  return extension("2.5.29.37", false, sequence(oid(purpose)));
}

function subjectAltNames(names: readonly string[]): Buffer {
  const entries = names.map((name) =>
    isIPv4(name) ? plain(7, Buffer.from(name.split(".").map(Number))) : plain(2, Buffer.from(name)),
  );
  return extension("2.5.29.17", false, sequence(...entries));
}

function distinguishedName({ commonName, organization }: Subject): Buffer {
  const entry = (id: string, text: string) => set(sequence(oid(id), utf8(text)));
  const group = organization === undefined ? [] : [entry("2.5.4.10", organization)];
  return sequence(...group, entry("2.5.4.3", commonName));
}
