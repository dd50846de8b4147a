/** The keys by which the source-override service and its clients authenticate each other. */
import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  type KeyPairKeyObjectResult,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto";
import type { KeyMaterial } from "../model.ts";
import { bits, integer, octets, oid, plain, sequence, set, tagged, time, utf8, yes } from "./der.ts";

/** As in those of kluctl's controller: they are not renewed while in use. */
const years = 10;
/** Certificates that expire soon are replaced at startup, so that they do not expire while the server runs. */
const renewBeforeMs = 30 * 24 * 3_600_000;
/** For peers whose clock is behind ours. */
const backdatedMs = 3_600_000;

/** The name in the server's certificate for clients that connect by another address. */
export const serverName = "source-override";

/** Creates a certificate authority, a certificate signed by it, and a secret shared by controllers. */
export function createKeyMaterial(now: Date): KeyMaterial {
  const authority = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const server = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const issuer = { name: "source-override-ca", keys: authority };
  const ca = certificate({ name: issuer.name, publicKey: authority.publicKey, issuer, extensions: ofAuthority, now });
  const cert = certificate({ name: serverName, publicKey: server.publicKey, issuer, extensions: ofServer, now });
  return {
    ca,
    cert,
    key: server.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    controllerSecret: randomBytes(32),
  };
}

/** Returns why the material cannot be used, or `undefined`. kluctl's own controller may have created it. */
export function problemOf({ ca, cert, key, controllerSecret }: KeyMaterial, now: Date): string | undefined {
  try {
    const [authority, server] = [new X509Certificate(ca), new X509Certificate(cert)];
    if (!server.checkPrivateKey(createPrivateKey(key))) return "its key does not match its certificate";
    if (!server.verify(authority.publicKey)) return "its certificate is not signed by its authority";
    if (server.checkHost(serverName) === undefined) return `its certificate is not for ${serverName}`;
    const ends = Math.min(...[authority, server].map(({ validTo }) => Date.parse(validTo)));
    if (ends < now.getTime() + renewBeforeMs) return `its certificate expires at ${new Date(ends).toISOString()}`;
  } catch {
    return "its certificates or its key cannot be read";
  }
  return controllerSecret.length < 16 ? "its secret between controllers is too short" : undefined;
}

interface CertificateOptions {
  readonly name: string;
  readonly publicKey: KeyObject;
  readonly issuer: { readonly name: string; readonly keys: KeyPairKeyObjectResult };
  readonly extensions: readonly Buffer[];
  readonly now: Date;
}

/** X.509 version 3, signed with ECDSA and SHA-256, in PEM. */
function certificate({ name, publicKey, issuer, extensions, now }: CertificateOptions): string {
  const signature = sequence(oid("1.2.840.10045.4.3.2"));
  const begins = new Date(now.getTime() - backdatedMs);
  const ends = new Date(now);
  ends.setUTCFullYear(ends.getUTCFullYear() + years);
  const signed = sequence(
    tagged(0, integer(Buffer.from([2]))),
    integer(randomBytes(16)),
    signature,
    distinguished(issuer.name),
    sequence(time(begins), time(ends)),
    distinguished(name),
    spkiOf(publicKey),
    tagged(
      3,
      sequence(
        ...extensions,
        extension("2.5.29.14", octets(identifier(publicKey))),
        extension("2.5.29.35", sequence(plain(0, identifier(issuer.keys.publicKey)))),
      ),
    ),
  );
  const whole = sequence(signed, signature, bits(sign("sha256", signed, issuer.keys.privateKey)));
  const lines = whole.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

const spkiOf = (key: KeyObject) => key.export({ type: "spki", format: "der" });
const identifier = (key: KeyObject) => createHash("sha1").update(spkiOf(key)).digest();

function distinguished(commonName: string): Buffer {
  return sequence(set(sequence(oid("2.5.4.3"), utf8(commonName))));
}

function extension(id: string, content: Buffer, critical = false): Buffer {
  return sequence(oid(id), ...(critical ? [yes] : []), octets(content));
}

const dnsName = (name: string) => plain(2, Buffer.from(name));
const address = (...bytes: number[]) => plain(7, Buffer.from(bytes));

const ofAuthority = [
  extension("2.5.29.19", sequence(yes), true), // may sign certificates
  extension("2.5.29.15", bits(Buffer.from([0b0000_0100]), 2), true), // and has no other use
];

const ofServer = [
  extension("2.5.29.19", sequence(), true),
  extension("2.5.29.15", bits(Buffer.from([0b1000_0000]), 7), true), // signs handshakes
  extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"))), // of TLS servers
  extension(
    "2.5.29.17",
    // The command line connects through a port-forward, other replicas by the pod's address.
    sequence(
      dnsName("localhost"),
      dnsName(serverName),
      address(127, 0, 0, 1),
      address(...Array.from({ length: 15 }, () => 0), 1),
    ),
  ),
];
