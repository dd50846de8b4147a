/** Finds the secret values in a result. Pure. */
import { parseJson } from "../kit/json.ts";
import type { CommandResult, ObjectRef, ResultObject } from "../model.ts";

export const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";

export interface SecretValues {
  readonly values: readonly Buffer[];
  /** Why some of the values may be unknown; absent if all are known. */
  readonly whyIncomplete?: string | undefined;
}

export function isSecret({ kind, group }: ObjectRef): boolean {
  return kind === "Secret" && (group ?? "") === "";
}

/**
 * Returns the values of all Secrets in a result: rendered, live and last applied. Also returns the vars that kluctl
 * loaded from encrypted files and secret stores, whatever they were used for.
 */
export function secretsOf({ objects, document }: CommandResult): SecretValues {
  const secrets = objects.filter(({ ref }) => isSecret(ref));
  const values = secretVars(document["deployment"]);
  if (values === undefined)
    return { values: [], whyIncomplete: "the result includes deployments too deeply to be read" };
  if (secrets.length === 0 && rendersSecrets(document["deployment"], 0)) {
    return { values, whyIncomplete: "the result references Secrets, but does not contain them" };
  }
  let whyIncomplete: string | undefined;
  for (const secret of secrets) {
    if (!isComplete(secret)) whyIncomplete = "the result lacks the contents of a Secret";
    for (const json of [secret.rendered, secret.remote, secret.applied]) {
      const contents = json === undefined ? new Map<string, Buffer>() : readSecret(json);
      if (contents === undefined) whyIncomplete = "could not read the contents of a Secret";
      else values.push(...contents.values());
      if (json !== undefined) values.push(...formerValues(json));
    }
    values.push(...changedValues(secret));
  }
  return { values, whyIncomplete };
}

/** Returns a Secret's keys with their decoded values; `undefined` if the object does not have a Secret's structure. */
export function readSecret(json: string): Map<string, Buffer> | undefined {
  const secret = parseObject(json);
  const data = secret && dataOf(secret["data"]);
  const stringData = secret && dataOf(secret["stringData"]);
  if (!data || !stringData) return undefined;
  const contents = new Map(data.map(([key, value]) => [key, Buffer.from(value, "base64")]));
  for (const [key, value] of stringData) contents.set(key, Buffer.from(value, "utf8"));
  return contents;
}

/**
 * Whether the expected texts are present. kluctl never leaves them out; without them the values to mask elsewhere would
 * be unknown.
 */
function isComplete({ changes, deleted, orphan, rendered, remote, applied }: ResultObject): boolean {
  if (changes.length > 0 || deleted || orphan) return remote !== undefined;
  return rendered !== undefined || applied !== undefined || remote !== undefined;
}

/** Values in the annotation of `kubectl apply`, which contains the whole Secret as it was applied some time ago. */
function formerValues(json: string): Buffer[] {
  const annotations = record(record(parseObject(json)?.["metadata"])?.["annotations"]);
  const former = annotations?.[lastApplied];
  return typeof former === "string" ? [...(readSecret(former)?.values() ?? [])] : [];
}

function changedValues({ changes }: ResultObject): Buffer[] {
  return changes.flatMap(({ jsonPath, oldValue, newValue }) => {
    const encoding = jsonPath.startsWith("data") ? "base64" : jsonPath.startsWith("stringData") ? "utf8" : undefined;
    if (encoding === undefined) return [];
    return [oldValue, newValue].flatMap(stringsIn).map((value) => Buffer.from(value, encoding));
  });
}

function stringsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

/** Sources that hold secrets. Their values are treated as secret even if the project marks them `sensitive: false`. */
const secretStores = [
  "clusterSecret",
  "clusterObject",
  "systemEnvVars",
  "awsSecretsManager",
  "gcpSecretManager",
  "azureKeyVault",
  "vault",
];
/** For these, kluctl detects encryption or a login, unless the project overrides that. */
const readSources = ["file", "git", "gitFiles", "http"];
const secretHeader = /auth|token|key|secret|cookie|pass/i;

/** Whether the values of a vars source are secret, judged by the source rather than by what the project claims. */
export function isSecretSource(source: Readonly<Record<string, unknown>>): boolean {
  const comesFrom = (kinds: readonly string[]) => kinds.some((kind) => (source[kind] ?? undefined) !== undefined);
  if (source["renderedSensitive"] === true || comesFrom(secretStores)) return true;
  return (source["sensitive"] === false && comesFrom(readSources)) || loginOf(source).length > 0;
}

/** The credentials that an `http` source is requested with. */
function loginOf({ http }: Readonly<Record<string, unknown>>): string[] {
  const { url, headers } = record(http) ?? {};
  const password = typeof url === "string" ? URL.parse(url)?.password : undefined;
  const secret = Object.entries(record(headers) ?? {}).filter(([name]) => secretHeader.test(name));
  return [...secret.flatMap(([, value]) => leavesIn(value)), ...(password ? [password] : [])];
}

const deepestTree = 100;

/**
 * Collects secret vars. Short numbers are left out: a replica count is not a secret. Returns `undefined` if the tree is
 * too deep to be read.
 */
function secretVars(tree: unknown, depth = 0): Buffer[] | undefined {
  const fields = record(tree);
  if (fields === undefined) return [];
  if (depth > deepestTree) return undefined;
  const { vars, deployments, renderedInclude } = fields;
  const own = (Array.isArray(vars) ? vars : []).flatMap((one: unknown) => {
    const source = record(one) ?? {};
    return isSecretSource(source) ? [...leavesIn(source["renderedVars"]), ...loginOf(source)] : [];
  });
  const found: Buffer[] = own.map((value) => Buffer.from(value));
  for (const item of [...(Array.isArray(deployments) ? deployments : []), renderedInclude]) {
    const below = secretVars(item, depth + 1);
    if (below === undefined) return undefined;
    for (const value of below) found.push(value);
  }
  return found;
}

function leavesIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value === "number") return String(value).length < 6 ? [] : [String(value)];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(leavesIn) : [];
}

function rendersSecrets(tree: unknown, depth: number): boolean {
  const items = record(tree)?.["deployments"];
  if (!Array.isArray(items) || depth > 50) return false;
  return items.some((item: unknown) => {
    const refs = record(item)?.["renderedObjects"];
    if (Array.isArray(refs) && refs.some((ref: unknown) => isSecretRef(ref))) return true;
    return rendersSecrets(record(item)?.["renderedInclude"], depth + 1);
  });
}

function isSecretRef(ref: unknown): boolean {
  const { kind, group } = record(ref) ?? {};
  return kind === "Secret" && (group === undefined || group === "");
}

function dataOf(value: unknown): [string, string][] | undefined {
  if (value === undefined || value === null) return [];
  const entries = Object.entries(record(value) ?? { "": undefined });
  // The API server treats null like a missing key.
  const written = entries.filter(([, text]) => text !== null);
  return written.every((entry): entry is [string, string] => typeof entry[1] === "string") ? written : undefined;
}

function parseObject(json: string): Record<string, unknown> | undefined {
  return record(parseJson(json));
}

function record(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}
