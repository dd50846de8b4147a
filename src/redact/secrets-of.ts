/** Which values of a result are secret. Pure. */
import { parseJson } from "../json.ts";
import type { CommandResult, ObjectRef, ResultObject } from "../model.ts";

export const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";

export interface SecretValues {
  readonly values: readonly Buffer[];
  /** Why some of the values may not be known; absent if all are. */
  readonly doubt?: string | undefined;
}

export function isSecret({ kind, group }: ObjectRef): boolean {
  return kind === "Secret" && (group ?? "") === "";
}

/**
 * The values of all Secrets in a result: as they are to be, as they were, and as they were before that. And the vars that
 * kluctl had from encrypted files and secret stores, whatever they were made into.
 */
export function secretsOf({ objects, document }: CommandResult): SecretValues {
  const secrets = objects.filter(({ ref }) => isSecret(ref));
  const values = secretVars(document["deployment"]);
  if (values === undefined) return { values: [], doubt: "the result includes deployments too deeply to be read" };
  if (secrets.length === 0 && rendersSecrets(document["deployment"], 0)) {
    return { values, doubt: "the result references Secrets, but does not contain them" };
  }
  let doubt: string | undefined;
  for (const secret of secrets) {
    if (!isComplete(secret)) doubt = "the result lacks the contents of a Secret";
    for (const json of [secret.rendered, secret.remote, secret.applied]) {
      const contents = json === undefined ? new Map<string, Buffer>() : readSecret(json);
      if (contents === undefined) doubt = "could not read the contents of a Secret";
      else values.push(...contents.values());
      if (json !== undefined) values.push(...formerValues(json));
    }
    values.push(...changedValues(secret));
  }
  return { values, doubt };
}

/** A Secret's keys with their decoded values; `undefined` if it is not what a Secret looks like. */
export function readSecret(json: string): Map<string, Buffer> | undefined {
  const secret = parseObject(json);
  const data = secret && dataOf(secret["data"]);
  const stringData = secret && dataOf(secret["stringData"]);
  if (!data || !stringData) return undefined;
  const contents = new Map(data.map(([key, value]) => [key, Buffer.from(value, "base64")]));
  for (const [key, value] of stringData) contents.set(key, Buffer.from(value, "utf8"));
  return contents;
}

/** kluctl leaves none of these out; without them nobody could tell what must not be read elsewhere. */
function isComplete({ changes, deleted, orphan, rendered, remote, applied }: ResultObject): boolean {
  if (changes.length > 0 || deleted || orphan) return remote !== undefined;
  return rendered !== undefined || applied !== undefined || remote !== undefined;
}

/** What `kubectl apply` left behind in an annotation: the whole Secret as it was applied some time ago. */
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

/** Where secrets are kept. A project can call what comes from there `sensitive: false`, and it is a secret all the same. */
const secretStores = [
  "clusterSecret",
  "clusterObject",
  "systemEnvVars",
  "awsSecretsManager",
  "gcpSecretManager",
  "azureKeyVault",
  "vault",
];
/** kluctl finds out whether these are encrypted or need a login, unless the project overrules it. */
const readSources = ["file", "git", "gitFiles", "http"];
const secretHeader = /auth|token|key|secret|cookie|pass/i;

/** Whether the values of one of kluctl's vars are secret: by their source, not by what the project claims. */
export function isSecretSource(source: Readonly<Record<string, unknown>>): boolean {
  const comesFrom = (kinds: readonly string[]) => kinds.some((kind) => (source[kind] ?? undefined) !== undefined);
  if (source["renderedSensitive"] === true || comesFrom(secretStores)) return true;
  return (source["sensitive"] === false && comesFrom(readSources)) || loginOf(source).length > 0;
}

/** What an `http` source is asked with. */
function loginOf({ http }: Readonly<Record<string, unknown>>): string[] {
  const { url, headers } = record(http) ?? {};
  const password = typeof url === "string" ? URL.parse(url)?.password : undefined;
  const secret = Object.entries(record(headers) ?? {}).filter(([name]) => secretHeader.test(name));
  return [...secret.flatMap(([, value]) => leavesIn(value)), ...(password ? [password] : [])];
}

const deepestTree = 100;

/** Of numbers, only what could be a secret: a replica count hides nothing. `undefined`: the tree is too deep to be read. */
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
  // The API server takes null for a key that is not there.
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
