/**
 * Creates files like SOPS does. A file's values are encrypted with its data key, and the data key with each master key.
 * The data keys and their age encryption are fixed here, so that no program needs to be installed.
 */
import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { stringify } from "yaml";

/** For tests only: the private key is public. */
export interface TestAgeKey {
  /** In the format of `age-keygen`. */
  readonly identity: string;
  readonly recipient: string;
  readonly dataKey: Buffer;
  /** The data key, encrypted for this recipient. */
  readonly enc: string;
}

const armored = (...lines: string[]) =>
  ["-----BEGIN AGE ENCRYPTED FILE-----", ...lines, "-----END AGE ENCRYPTED FILE-----", ""].join("\n");

export const blueKey: TestAgeKey = {
  identity: "AGE-SECRET-KEY-1ENCLA7WW35SAFYZL64DA0TER7WCY6SH47DM9T32UYJ5G0ACHPKUSKHESRS",
  recipient: "age1vy4ct2dghew2xwdxf8v992ny3zavt0w0zhnmngf6j3cj48v54eus3c3n98",
  dataKey: testDataKey("blue"),
  enc: armored(
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBybDF2SXRlaWdQUlIwYnFr",
    "L2hlYmszRktGbWhieXlnL0tIZm5BeExBUGdFCm1FN3JsbXR3bFdYYnhhbmM3Z2Er",
    "NHNYVlYvd0VtcXc4YjJGVlFBWC8zZFEKLS0tIENBNDVOK3g2NjdPYU11OVVzTUs4",
    "Tkl4OUVBdkhId2pzK0IrbENaYm1GLzAKZMzm2/4rst7Icb8YQUhKu9XAOcXSfAqX",
    "nV16dkD/A7N5KMETUWs6O4ZkatAGXYJSx25akFjDewU6pZkIFTw8dA==",
  ),
};

export const greenKey: TestAgeKey = {
  identity: "AGE-SECRET-KEY-1XD5933XVY4WL2LQV5GQD5SF4R42NUHWJ8EVJZ28S5KHQ9RZJE9LSYT7E9F",
  recipient: "age16znzjl7f0ncrh79rup986ncmulw65ap755xjp5tzdsqk46s6zpaqxlakcm",
  dataKey: testDataKey("green"),
  enc: armored(
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBZbmNhL2o4RUxZd0VUSGVw",
    "NUMrQUNZUUdnbFJiL21FWEV1OTZCbHhZQmdrCnRpZUZBc1pPSlptNzh3eVliL2F5",
    "RUx1c1B6dU92eWJFVFhWcDFqSVJjZUUKLS0tIG1MMWF6OFlIeWpkUTZoQTc2R0R0",
    "N3gxVUVGbXdVUGpVUUxIYml6ZWt5ZDgKZWJfoC9rzQj5AGqdk+x3UE8Z2pWRTBzW",
    "WBAXnxsdnhWLWLAi/TX+DyY6SpO4T51fOJ85hyWTh7O0LrqEC0eGGw==",
  ),
};

/** Not secret; it has to be the same each time. */
export function testDataKey(name: string): Buffer {
  return createHash("sha256").update(`towline test data key ${name}`).digest();
}

/** The master keys: the fields of SOPS's metadata that name them, each with the encrypted data key as `enc`. */
export type MasterKeys = Partial<
  Record<"age" | "pgp" | "hc_vault" | "kms" | "gcp_kms" | "azure_kv", readonly Readonly<Record<string, string>>[]>
>;

export function ageMasterKey({ recipient, enc }: TestAgeKey): MasterKeys {
  return { age: [{ recipient, enc }] };
}

interface Encrypted {
  readonly dataKey: Buffer;
  readonly masterKeys: MasterKeys;
  /** Top-level fields to encrypt; all if absent. */
  readonly fields?: readonly string[];
}

/** A YAML file with encrypted strings and integers. */
export function encryptedYaml(document: object, encryption: Encrypted): string {
  return stringify(encryptedDocument(document, encryption));
}

/** The same as JSON, with SOPS's indentation. */
export function encryptedJson(document: object, encryption: Encrypted): string {
  return JSON.stringify(encryptedDocument(document, encryption), undefined, "\t");
}

/** A dotenv file, whose metadata is in variables as well. */
export function encryptedDotenv(variables: Readonly<Record<string, string>>, encryption: Encrypted): string {
  const { sops, ...values } = encryptedDocument(variables, encryption);
  const lines = [...Object.entries(values), ...flatten("sops", sops)];
  return lines.map(([name, value]) => `${name}=${String(value).replaceAll("\n", "\\n")}\n`).join("");
}

function flatten(name: string, value: unknown): [string, unknown][] {
  if (typeof value !== "object" || value === null) return [[name, value]];
  const separator = Array.isArray(value) ? "__list_" : name === "sops" ? "_" : "__map_";
  return Object.entries(value).flatMap(([key, item]) => flatten(`${name}${separator}${key}`, item));
}

function encryptedDocument(document: object, { dataKey, masterKeys, fields }: Encrypted) {
  const encrypt = (value: unknown, path: readonly string[]): unknown => {
    if (typeof value === "string") return encryptText(value, path, dataKey);
    if (typeof value === "number") return encryptText(String(value), path, dataKey, "int");
    if (Array.isArray(value)) return value.map((item) => encrypt(item, path));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, encrypt(item, [...path, key])]));
  };
  const isMeant = (name: string) => fields === undefined || fields.includes(name);
  const entries = Object.entries(document).map(([name, value]) => [
    name,
    isMeant(name) ? encrypt(value, [name]) : value,
  ]);
  const sops = {
    ...masterKeys,
    lastmodified: "2026-01-01T00:00:00Z",
    mac: encryptText("kluctl does not look at it", ["2026-01-01T00:00:00Z"], dataKey),
    ...(fields ? { encrypted_regex: `^(${fields.join("|")})$` } : { unencrypted_suffix: "_unencrypted" }),
    version: "3.8.1",
  };
  return { ...(Object.fromEntries(entries) as Record<string, unknown>), sops };
}

function encryptText(text: string, path: readonly string[], dataKey: Buffer, type = "str"): string {
  const iv = randomBytes(32);
  const cipher = createCipheriv("aes-256-gcm", dataKey, iv).setAAD(Buffer.from(`${path.join(":")}:`));
  const data = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  const base64 = (bytes: Buffer) => bytes.toString("base64");
  return `ENC[AES256_GCM,data:${base64(data)},iv:${base64(iv)},tag:${base64(cipher.getAuthTag())},type:${type}]`;
}
