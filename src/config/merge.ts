/** Merges file, variables and options into one document for the schema. Pure except for reading secret files. */
import { configFields, type Field, forgeFields } from "./fields.ts";
import { explainUnreadable } from "./file.ts";
import { findNearest } from "../kit/nearest.ts";
import { didYouMean, pathText, type Problem } from "./problems.ts";
import { forgeKinds } from "./forge-schema.ts";
import { ownVariables } from "./variables.ts";

export interface ConfigSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The parsed configuration file. */
  readonly file?: unknown;
  /** By the key's path, such as `webhooks.port`: strings, lists of strings, or true. */
  readonly flags?: Readonly<Record<string, unknown>> | undefined;
  /** By the key's path: what the user wrote to set it, if it is not the key's own option. */
  readonly flagNames?: Readonly<Record<string, string>> | undefined;
  /** By the key's path: defaults of the command that differ from the schema. */
  readonly defaults?: Readonly<Record<string, unknown>> | undefined;
  /** Reads a file with a secret. */
  readonly readFile?: ((path: string) => string) | undefined;
}

export interface MergedConfig {
  readonly document: ConfigSection;
  /** Path of a key → the option or variable that set it. Other keys come from the file or are defaults. */
  readonly origins: ReadonlyMap<string, string>;
  readonly problems: readonly Problem[];
}

export type ConfigSection = { [key: string]: unknown };

export function mergeSources(sources: ConfigSources): MergedConfig {
  const { env, file, flags = {}, flagNames = {}, defaults = {}, readFile } = sources;
  const problems: Problem[] = [];
  const origins = new Map<string, string>();
  const document = startDocument(file, problems);
  const unknown = new Map(ownVariables(env));
  const fields = configFields();

  /** Sets a key from an option or variable, and replaces its alternative, such as `tokenFile` for `token`. */
  function override(
    section: ConfigSection,
    place: readonly PropertyKey[],
    field: Field,
    value: unknown,
    origin: string,
  ): void {
    const key = field.keys.at(-1) ?? "";
    for (const twin of twinsOf(key)) {
      if (!(twin in section)) continue;
      const rival = origins.get(pathText([...place, twin]));
      const same = rival?.startsWith("--") === origin.startsWith("--");
      if (rival === undefined || !same) delete section[twin];
      else if (!Array.isArray(section[twin]))
        problems.push({ where: origin, what: `and ${rival} are both set: remove one` });
    }
    section[key] = toValue(field, value);
    origins.set(pathText([...place, key]), origin);
  }

  for (const field of fields) {
    const value = unknown.get(field.variable);
    unknown.delete(field.variable);
    if (value === undefined) continue;
    const place = field.keys.slice(0, -1);
    const section = openSection(document, place);
    if (section) override(section, place, field, value, field.variable);
  }

  for (const kind of forgeKinds) {
    for (const field of forgeFields(kind)) {
      const value = unknown.get(field.variable);
      if (value === undefined || field.path === "id" || field.path === "kind") continue;
      unknown.delete(field.variable);
      const [forge, index] = openForge(document, kind);
      if (forge) override(forge, ["forges", index], field, value, field.variable);
    }
  }

  for (const field of fields) {
    const value = flags[field.path];
    if (value === undefined || field.flag === undefined) continue;
    const place = field.keys.slice(0, -1);
    const section = openSection(document, place);
    if (section) override(section, place, field, value, flagNames[field.path] ?? field.flag);
  }

  for (const field of fields) {
    const value = defaults[field.path];
    const section = value === undefined ? undefined : openSection(document, field.keys.slice(0, -1));
    if (section) section[field.keys.at(-1) ?? ""] ??= value;
  }

  unknown.delete("TOWLINE_CONFIG"); // the path of the file, handled by the caller
  const known = [...fields, ...forgeKinds.flatMap(forgeFields)].map(({ variable }) => variable);
  for (const name of unknown.keys()) {
    const meant = findNearest(name, known) ?? known.find((other) => other.endsWith(name.replace("TOWLINE", "")));
    problems.push({ where: name, what: `is not a known variable${didYouMean(meant)}` });
  }
  readSecretFiles(document, origins, problems, readFile);
  return { document, origins, problems };
}

function startDocument(file: unknown, problems: Problem[]): ConfigSection {
  const document = withoutNulls(file ?? {});
  if (isSection(document)) return document;
  problems.push({ where: "the file", what: "must be a mapping of keys to values" });
  return {};
}

/** A copy without keys that have no value, for example because everything below them is commented out. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isSection(value)) return value;
  const entries = Object.entries(value).filter(([, child]) => child !== null && child !== undefined);
  return Object.fromEntries(entries.map(([key, child]) => [key, withoutNulls(child)]));
}

export function isSection(value: unknown): value is ConfigSection {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `undefined` if the file has another type there, which the schema reports. */
function openSection(document: ConfigSection, place: readonly string[]): ConfigSection | undefined {
  let section: ConfigSection = document;
  for (const key of place) {
    const child = (section[key] ??= {});
    if (!isSection(child)) return undefined;
    section = child;
  }
  return section;
}

function openForge(document: ConfigSection, kind: string): [ConfigSection | undefined, number] {
  const forges = (document["forges"] ??= []);
  if (!Array.isArray(forges)) return [undefined, 0];
  let index = forges.findIndex((forge) => isSection(forge) && forge["id"] === kind);
  if (index < 0) index = forges.push({ id: kind, kind }) - 1;
  return [forges[index] as ConfigSection, index];
}

/** Lists of secrets, and of the files with them. */
const listTwins: readonly (readonly string[])[] = [
  ["webhookSecrets", "webhookSecretFiles"],
  ["keys", "keyFiles"],
];

function twinsOf(key: string): readonly string[] {
  const pair = listTwins.find((twins) => twins.includes(key));
  if (pair !== undefined) return pair.filter((twin) => twin !== key);
  return [key.endsWith("File") ? key.slice(0, -"File".length) : `${key}File`];
}

/** Converts the string of an option or variable to the key's type. Other strings are left for the schema to report. */
function toValue({ kind }: Field, value: unknown): unknown {
  if (typeof value !== "string") return value;
  const trimmed = value.trim();
  if (kind === "number" && /^\d+$/.test(trimmed)) return Number(trimmed);
  if (kind === "boolean") return { true: true, "1": true, false: false, "0": false }[trimmed.toLowerCase()] ?? value;
  if (kind === "list") return splitList(trimmed, /[,\r\n]/);
  return trimmed;
}

function splitList(text: string, separator: RegExp): string[] {
  return text
    .split(separator)
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

function readSecretFiles(
  document: ConfigSection,
  origins: Map<string, string>,
  problems: Problem[],
  readFile: ConfigSources["readFile"],
): void {
  function read(place: readonly PropertyKey[], path: unknown): string | undefined {
    if (typeof path !== "string" || path.trim() === "") return undefined;
    const where = withOrigin(pathText(place), origins);
    try {
      if (!readFile) throw new Error("reading files is not supported here");
      const content = readFile(path.trim()).trim();
      if (content === "") problems.push({ where, what: `${path} is empty` });
      return content === "" ? undefined : content;
    } catch (error) {
      problems.push({ where, what: `cannot read ${path}: ${explainUnreadable(error)}` });
      return undefined;
    }
  }

  function readInto(section: ConfigSection, place: readonly PropertyKey[], key: string): void {
    const path = section[`${key}File`];
    if (path === undefined) return;
    if (section[key] !== undefined) {
      // A conflict between two variables is already reported.
      if (origins.has(pathText([...place, key]))) return;
      problems.push({ where: pathText([...place, key]), what: `and ${key}File are both set: remove one` });
      return;
    }
    const content = read([...place, `${key}File`], path);
    if (content !== undefined) section[key] = content;
  }

  /** Adds the lines of the files in `<key>Files` to the list `<key>s`. */
  function readListInto(section: ConfigSection, place: readonly PropertyKey[], key: string): void {
    const files = section[`${key}Files`];
    if (!Array.isArray(files) || files.length === 0) return;
    const contents = files.flatMap((path, i) => read([...place, `${key}Files`, i], path) ?? []);
    const inline = section[`${key}s`];
    section[`${key}s`] = [
      ...(Array.isArray(inline) ? inline : []),
      ...contents.flatMap((text) => splitList(text, /\r?\n/)),
    ];
  }

  const redis = document["redis"];
  if (isSection(redis)) for (const key of ["url", "password", "sentinelPassword"]) readInto(redis, ["redis"], key);

  const page = document["page"];
  if (isSection(page)) for (const key of ["token", "proxySecret"]) readInto(page, ["page"], key);
  if (isSection(page) && isSection(page["oidc"])) readInto(page["oidc"], ["page", "oidc"], "clientSecret");

  const preview = document["preview"];
  const runner = isSection(preview) ? preview["runner"] : undefined;
  if (isSection(runner)) readInto(runner, ["preview", "runner"], "token");

  const recording = document["recording"];
  if (isSection(recording)) readListInto(recording, ["recording"], "key");

  const notifications = document["notifications"];
  const targets = isSection(notifications) ? notifications["targets"] : undefined;
  for (const [index, target] of (Array.isArray(targets) ? targets : []).entries()) {
    if (!isSection(target)) continue;
    const place = ["notifications", "targets", index];
    for (const key of ["url", "token"]) readInto(target, place, key);
    readListInto(target, place, "signingKey");
  }

  const forges = document["forges"];
  for (const [index, forge] of (Array.isArray(forges) ? forges : []).entries()) {
    if (!isSection(forge)) continue;
    const place = ["forges", index];
    for (const key of ["token", "appPrivateKey"]) readInto(forge, place, key);
    readListInto(forge, place, "webhookSecret");
  }
}

/** Adds the origin of a value: `webhooks.port (TOWLINE_WEBHOOKS_PORT)`. */
export function withOrigin(path: string, origins: ReadonlyMap<string, string>): string {
  const origin = origins.get(path) ?? origins.get(path.replace(/\[\d+\]$/, ""));
  return origin === undefined ? path : `${path} (${origin})`;
}
