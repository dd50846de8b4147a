/**
 * Separates changes that nobody wants to read: labels and checksums that only follow a version, generated names that
 * only follow their content, and fields that the deployment's resource names. They are folded and counted, not dropped.
 * Pure.
 */
import { parsePathGlobs, type PathGlob } from "../kit/glob.ts";
import { parseJson } from "../kit/json.ts";
import type { FieldChange, ResultObject } from "../model.ts";
import { pathOf, pointerOf, stepsOf } from "./field-path.ts";
import { isTouched } from "./reference-diff.ts";

/** Fields whose changes are noise. */
export interface IgnoredField {
  /** A glob for kinds: `*`, `Deployment`. */
  readonly kind: PathGlob;
  readonly pointer: readonly PathGlob[];
}

export interface IgnoredFields {
  readonly fields: readonly IgnoredField[];
  /** What is wrong with the lines that are not used. */
  readonly problems: readonly string[];
}

const mostLines = 100;
const longestShown = 100;

/**
 * Parses the annotation `towline.dev/ignore-changes`: one field per line, as a JSON pointer in which `*` stands for any
 * part of a name and `**` for any number of names, after the kind of the objects if not all are meant.
 */
export function parseIgnoredFields(text: string): IgnoredFields {
  const fields: IgnoredField[] = [];
  const problems: string[] = [];
  const lines = text.split("\n").map((line, at) => ({ line: line.trim(), number: at + 1 }));
  const used = lines.filter(({ line }) => line !== "" && !line.startsWith("#"));
  for (const { line, number } of used.slice(0, mostLines)) {
    const [, kinds = "*", pointer = ""] = /^(?:(\S+)\s+)?(\/\S*)$/.exec(line) ?? [];
    const [kind, ...others] = parsePathGlobs(kinds) ?? [];
    const globs = parsePathGlobs(pointer.slice(1)) ?? [];
    if (kind !== undefined && others.length === 0 && globs.length > 0) fields.push({ kind, pointer: globs });
    else
      problems.push(
        `line ${number} is not used: ${JSON.stringify(line.slice(0, longestShown))} is not a kind and a JSON pointer, ` +
          "such as `Deployment /spec/replicas`",
      );
  }
  if (used.length > mostLines) problems.push(`only the first ${mostLines} lines are used`);
  return { fields, problems };
}

export interface Separated {
  /** All objects, with the changes that are worth reading. */
  readonly told: readonly ResultObject[];
  /** The objects with changes that are noise, with these changes only. */
  readonly noise: readonly ResultObject[];
}

export function separateNoise(objects: readonly ResultObject[], ignored: readonly IgnoredField[]): Separated {
  const renamed = findRenamed(objects);
  const noise: ResultObject[] = [];
  const told = objects.map((object) => {
    if (object.hook || !isTouched(object)) return object;
    if (renamed.objects.has(object)) {
      noise.push(object);
      return { ...object, new: false, orphan: false, deleted: false };
    }
    const isNoise = createIsNoise(object, ignored, renamed.names);
    const { noise: quiet = [], told: loud = [] } = Object.groupBy(object.changes, (change) =>
      isNoise(change) ? "noise" : "told",
    );
    if (quiet.length === 0) return object;
    noise.push({ ...object, changes: quiet });
    return { ...object, changes: loud };
  });
  return { told, noise };
}

function createIsNoise(
  { ref }: ResultObject,
  ignored: readonly IgnoredField[],
  renamed: ReadonlyMap<string, string>,
): (change: FieldChange) => boolean {
  const fields = ignored.filter(({ kind }) => kind(ref.kind)).flatMap(({ pointer }) => pointer);
  return (change) => {
    if (isNewName(change, renamed)) return true;
    const steps = stepsOf(pathOf(change));
    if (steps === undefined) return false;
    const pointer = pointerOf(steps);
    return followsVersion(pointer, change) || fields.some((matches) => matches(pointer));
  };
}

/** Labels by which charts name their version. */
const versionLabel = /(?:^|\/)metadata\/labels\/(?:app\.kubernetes\.io~1version|helm\.sh~1chart|chart)$/;
/** Annotations by which charts restart pods if a ConfigMap or Secret changes. */
const checksum = /(?:^|\/)metadata\/annotations\/(?:checksum~1[^/]+|(?:[^/]*[.~-])?(?:config-?)?(?:checksum|hash))$/;
const digest = /^[0-9a-f]{8,128}$/i;

function followsVersion(pointer: string, { type, oldValue, newValue }: FieldChange): boolean {
  if (type !== "update" || typeof oldValue !== "string" || typeof newValue !== "string") return false;
  return versionLabel.test(pointer) || (checksum.test(pointer) && digest.test(oldValue) && digest.test(newValue));
}

/** The end of a name that a generator derives from the content: kustomize's has ten letters, others up to 64. */
const generated = /^(.+)-([a-z0-9]{5,64})$/;

interface Renamed {
  /** Old name → new name. */
  readonly names: ReadonlyMap<string, string>;
  /** Both halves of the pairs with the same content. */
  readonly objects: ReadonlySet<ResultObject>;
}

/**
 * Pairs each ConfigMap and Secret that is no longer in the project with the new one of the same kind, namespace and
 * name, except for the generated end of the name. Names that could belong to several pairs are left alone.
 */
function findRenamed(objects: readonly ResultObject[]): Renamed {
  const candidates = objects.filter(
    ({ ref, new: isNew, orphan, deleted }) =>
      (isNew || orphan || deleted) && (ref.kind === "ConfigMap" || ref.kind === "Secret") && !ref.group,
  );
  const names = new Map<string, string>();
  const same = new Set<ResultObject>();
  const byStem = Map.groupBy(candidates, ({ ref }) => {
    const stem = generated.exec(ref.name)?.[1];
    return JSON.stringify([ref.kind, ref.namespace ?? "", stem ?? ["whole", ref.name]]);
  });
  for (const group of byStem.values()) {
    const [created, ...moreCreated] = group.filter((object) => object.new);
    const [gone, ...moreGone] = group.filter((object) => !object.new);
    if (!created || !gone || moreCreated.length + moreGone.length > 0) continue;
    names.set(gone.ref.name, created.ref.name);
    if (created.ref.kind === "ConfigMap" && hasSameContent(created, gone)) same.add(created).add(gone);
  }
  return { names, objects: same };
}

/** Fields that name a ConfigMap or a Secret. */
const reference =
  /(?:^|\.)(?:configMapKeyRef|secretKeyRef|configMapRef|secretRef|configMap|imagePullSecrets\[\d+\])\.name$|\.secret\.(?:secretName|name)$|\.secretName$/;

function isNewName(change: FieldChange, renamed: ReadonlyMap<string, string>): boolean {
  const { type, oldValue, newValue } = change;
  if (type !== "update" || typeof oldValue !== "string" || renamed.size === 0) return false;
  return renamed.get(oldValue) === newValue && reference.test(pathOf(change));
}

function hasSameContent({ rendered = "" }: ResultObject, { remote = "" }: ResultObject): boolean {
  const [one, other] = [contentOf(rendered), contentOf(remote)];
  return one !== undefined && one === other;
}

function contentOf(json: string): string | undefined {
  const object = parseJson(json);
  if (typeof object !== "object" || object === null) return undefined;
  const { data, binaryData } = object as { data?: unknown; binaryData?: unknown };
  return JSON.stringify([data ?? {}, binaryData ?? {}].map((each) => Object.entries(each as object).sort()));
}
