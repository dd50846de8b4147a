/** Finds the secret parts of a Secret's values: logins and keys, but not the names and addresses next to them. Pure. */
import { parse } from "yaml";

const revealing = /pass|secret|token|key|credential|certificate|assertion/i;
/** Fields that are public in spite of their names. */
const harmless =
  /(^|[-_])(ids?|name|uri|url|type|arn)$|(?<=[a-z])(Id|Ids|Uri|Url|Name|Type|Authority|SendChain)$|certificate-authority|x509_cert_url/;

/** The secrets in a kubeconfig, in a cloud login in YAML or JSON, or in a plain key or token. */
export function secretsIn(text: string): string[] {
  const document = parseQuietly(text);
  const values = typeof document === "object" && document !== null ? leavesOf(document) : [text];
  return [...new Set(values.flatMap(piecesOf))];
}

/** The secrets in Docker's configuration: a base64 login consists of a name, a colon and the password. */
export function secretsInDockerConfig(text: string): string[] {
  const { auths } = recordOf(parseQuietly(text));
  return Object.values(recordOf(auths)).flatMap((login) => {
    const { auth, password, identitytoken, registrytoken } = recordOf(login);
    const [, decoded] = /^[^:]*:([^]*)$/.exec(Buffer.from(textOf(auth), "base64").toString("utf8")) ?? [];
    // Some versions pad the password with NULs.
    const found = [textOf(auth), decoded?.replace(/\0+$/, ""), password, identitytoken, registrytoken].map(textOf);
    return found.filter((value) => value !== "");
  });
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function leavesOf(value: object): string[] {
  return Object.entries(value).flatMap(([name, item]: [string, unknown]) => {
    if (typeof item === "object" && item !== null) return leavesOf(item);
    return typeof item === "string" && revealing.test(name) && !harmless.test(name) ? [item] : [];
  });
}

/** The whole value, its lines, and, because kubeconfigs encode their keys in base64, the decoded text. */
function piecesOf(value: string): string[] {
  const isBase64 = /^[A-Za-z0-9+/\s]{64,}={0,2}$/.test(value.trimEnd());
  const decoded = isBase64 ? Buffer.from(value, "base64").toString("utf8") : "";
  const texts = decoded.startsWith("-----BEGIN ") ? [value, decoded] : [value];
  return texts
    .flatMap((text) => [text, ...text.split("\n").filter(isOfKey)])
    .map((piece) => piece.trim())
    .filter((piece) => piece.length >= 6);
}

/** Excludes comments, the first and last line of an armor, and its headers: they are the same in every key. */
function isOfKey(line: string): boolean {
  return !/^\s*(#|-----|[A-Za-z-]+: )/.test(line);
}

function parseQuietly(text: string): unknown {
  if (/^\s*-----BEGIN /.test(text)) return undefined; // the headers of a PGP key look like YAML
  try {
    return parse(text, { logLevel: "error" }) as unknown;
  } catch {
    return undefined;
  }
}
