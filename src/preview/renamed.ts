/**
 * Recognizes ConfigMaps whose names kustomize generates from their content. A change of the content makes a new object
 * and leaves the old one behind; here both become one object that changes, and the new name in what refers to it becomes
 * noise. Not Secrets: their contents are not known here. Pure.
 */
import { field, fieldsOf, type JsonObject, parseJson } from "../kit/json.ts";
import type { FieldChange, ResultObject } from "../model.ts";

/** The encoding of kustomize's hash: hexadecimal, with letters in place of what could be read as a word. */
const generated = /^(.+)-([2456789bcdfghkmt]{10})$/;

/** The name of the ConfigMap itself, and where pods refer to one: an equal text elsewhere may mean another object. */
const nameOfConfigMap = /^metadata\/name$|\/(?:configMap|configMapRef|configMapKeyRef)\/name$/;

export interface Renamed {
  readonly objects: readonly ResultObject[];
  /** Whether a change, at this JSON pointer of an object in this namespace, does nothing but follow a new name. */
  readonly followsName: (namespace: string | undefined, pointer: string, change: FieldChange) => boolean;
}

export function joinRenamed(objects: readonly ResultObject[]): Renamed {
  const byStem = Map.groupBy(objects.filter(isCandidate), stemOf);
  const before = new Map<ResultObject, ResultObject>();
  for (const [stem, all] of byStem) {
    const [added, ...moreAdded] = all.filter((object) => object.new);
    const [left, ...moreLeft] = all.filter((object) => object.orphan);
    // Which one takes the place of which is certain only if there is one of each.
    const isCertain = stem !== undefined && moreAdded.length === 0 && moreLeft.length === 0;
    if (isCertain && added?.rendered !== undefined && left?.remote !== undefined) before.set(added, left);
  }
  const gone = new Set(before.values());
  const names = new Set(
    [...before].map(([added, left]) => renaming(added.ref.namespace, left.ref.name, added.ref.name)),
  );
  return {
    objects: objects.flatMap((object) => {
      if (gone.has(object)) return [];
      const left = before.get(object);
      return [left === undefined ? object : join(object, left)];
    }),
    followsName: (namespace, pointer, { type, oldValue, newValue }) =>
      type === "update" && nameOfConfigMap.test(pointer) && names.has(renaming(namespace, oldValue, newValue)),
  };
}

function isCandidate({ ref, hook, orphan, new: isNew }: ResultObject): boolean {
  return !hook && isNew !== orphan && ref.kind === "ConfigMap" && (ref.group ?? "") === "";
}

function stemOf({ ref }: ResultObject): string | undefined {
  const stem = generated.exec(ref.name)?.[1];
  return stem === undefined ? undefined : JSON.stringify([ref.namespace, stem]);
}

function renaming(namespace: string | undefined, from: unknown, to: unknown): string {
  return JSON.stringify([namespace, from, to]);
}

function join(added: ResultObject, left: ResultObject): ResultObject {
  const name = update("metadata.name", left.ref.name, added.ref.name);
  const changes = [name, ...changesBetween(parse(left.remote), parse(added.rendered))];
  return { ...added, new: false, changes, remote: left.remote };
}

/** The parts of a ConfigMap whose entries are compared. */
const parts = [["data"], ["binaryData"], ["metadata", "labels"], ["metadata", "annotations"]] as const;

function changesBetween(before: JsonObject, after: JsonObject): FieldChange[] {
  const entries = parts.flatMap((path) => {
    const [old, now] = [before, after].map((object) => fieldsOf(field(object, ...path))) as [JsonObject, JsonObject];
    const keys = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter((key) => !isFromTools(key)).toSorted();
    return keys.flatMap((key) => changeOf(`${path.join(".")}[${JSON.stringify(key)}]`, old[key], now[key]));
  });
  return [...entries, ...changeOf("immutable", before["immutable"], after["immutable"])];
}

function changeOf(jsonPath: string, oldValue: unknown, newValue: unknown): FieldChange[] {
  if (oldValue === newValue) return [];
  if (oldValue === undefined) return [{ type: "insert", jsonPath, newValue }];
  if (newValue === undefined) return [{ type: "delete", jsonPath, oldValue }];
  return [update(jsonPath, oldValue, newValue)];
}

function update(jsonPath: string, oldValue: unknown, newValue: unknown): FieldChange {
  return { type: "update", jsonPath, oldValue, newValue };
}

/** Set by kluctl and kubectl to recognize their objects, as opposed to what says how these are handled. */
function isFromTools(key: string): boolean {
  return /^(?:kluctl\.io\/(?:discriminator|deployment-item-dir|tag-.*)|kubectl\.kubernetes\.io\/last-applied-configuration)$/.test(
    key,
  );
}

function parse(json: string | undefined): JsonObject {
  return fieldsOf(parseJson(json ?? ""));
}
