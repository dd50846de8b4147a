/** Prints the effective configuration. */
import { Document } from "yaml";
import type { Config, LoadedConfig } from "../config.ts";
import { configFields, type Field, forgeFields } from "./fields.ts";
import { isSection, type ConfigSection } from "./merge.ts";
import { targetSchema } from "./notifications-schema.ts";
import { pathText } from "./problems.ts";

const mask = "***";

/** A copy in which every secret is `***`. */
export function maskSecrets(document: ConfigSection): ConfigSection {
  const copy = structuredClone(document);
  for (const { keys, secret } of configFields()) {
    const section = keys.slice(0, -1).reduce<unknown>((at, key) => (isSection(at) ? at[key] : undefined), copy);
    if (secret && isSection(section)) maskKey(section, keys.at(-1) ?? "");
  }
  const forges = Array.isArray(copy["forges"]) ? copy["forges"].filter(isSection) : [];
  for (const { path, secret } of forgeFields("<KIND>")) if (secret) for (const forge of forges) maskKey(forge, path);
  for (const target of sectionsAt(copy, "targets")) for (const key of targetSecrets) maskKey(target, key);
  return copy;
}

const targetSecrets = Object.entries(targetSchema.shape).flatMap(([key, field]) =>
  field.meta()?.["secret"] ? [key] : [],
);

function sectionsAt(document: ConfigSection, list: "targets" | "routes"): readonly ConfigSection[] {
  const notifications = document["notifications"];
  const items = isSection(notifications) ? notifications[list] : undefined;
  return Array.isArray(items) ? items.filter(isSection) : [];
}

function maskKey(section: ConfigSection, key: string): void {
  const value = section[key];
  if (value !== undefined) section[key] = Array.isArray(value) ? value.map(() => mask) : mask;
}

/** A valid configuration file, with a comment on each value that does not come from the file. */
export function printConfig({ config, document, origins }: LoadedConfig): string {
  const yaml = new Document({});
  const add = (place: readonly (string | number)[], value: unknown, comment: string | undefined): void => {
    const node = yaml.createNode(value, { flow: Array.isArray(value) });
    if (comment !== undefined) node.comment = ` ${comment}`;
    yaml.setIn(place, node);
  };

  const forges = Array.isArray(document["forges"]) ? document["forges"].filter(isSection) : [];
  if (forges.length === 0) add(["forges"], [], "default");
  else yaml.set("forges", yaml.createNode(forges.map(() => ({}))));
  for (const [index, forge] of forges.entries()) {
    for (const [key, value] of Object.entries(forge)) {
      const place = ["forges", index, key];
      add(place, value, origins.get(pathText(place)));
    }
  }
  for (const field of configFields()) {
    const written = field.keys.reduce<unknown>((at, key) => (isSection(at) ? at[key] : undefined), document);
    const value = written ?? field.default ?? settled(field, config) ?? null;
    if (value === null && field.defaultText === undefined) continue;
    const fallback = field.defaultText === undefined ? "default" : `default: ${field.defaultText}`;
    add(field.keys, value, origins.get(field.path) ?? (written === undefined ? fallback : undefined));
  }
  for (const list of ["targets", "routes"] as const) {
    const items = sectionsAt(document, list);
    add(["notifications", list], items, items.length === 0 ? "default" : undefined);
  }
  return yaml.toString({ lineWidth: 0 });
}

/** Defaults that depend on the machine. */
function settled({ path }: Field, { dataDir, concurrency }: Config): unknown {
  return path === "dataDir" ? dataDir : path === "concurrency" ? concurrency : undefined;
}
