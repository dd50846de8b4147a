/**
 * Separates changes that nobody wants to read: labels and checksums that only follow a version, generated names, and
 * fields that the deployment's resource names. They are folded and counted, not dropped. Nothing that selects, restarts or renames
 * anything else may be among the former: an author could hide a change in it. Pure.
 */
import { parsePathGlobs, type PathGlob } from "../kit/glob.ts";
import type { FieldChange, ResultObject } from "../model.ts";
import { pathOf, pointerOf, stepsOf } from "./field-path.ts";
import { isTouched } from "./reference-diff.ts";
import { joinRenamed, type Renamed } from "./renamed.ts";

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
  /** All objects, with the changes that are worth reading; two that only differ in a generated name are one. */
  readonly told: readonly ResultObject[];
  /** The objects with changes that are noise, with these changes only. */
  readonly noise: readonly ResultObject[];
}

export function separateNoise(objects: readonly ResultObject[], ignored: readonly IgnoredField[]): Separated {
  const noise: ResultObject[] = [];
  const renamed = joinRenamed(objects);
  const told = renamed.objects.map((object) => {
    if (object.hook || !isTouched(object)) return object;
    const isNoise = createIsNoise(object, ignored, renamed);
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
  { followsName }: Pick<Renamed, "followsName">,
): (change: FieldChange) => boolean {
  const fields = ignored.filter(({ kind }) => kind(ref.kind)).flatMap(({ pointer }) => pointer);
  return (change) => {
    const steps = stepsOf(pathOf(change));
    if (steps === undefined) return false;
    const pointer = pointerOf(steps);
    if (followsVersion(pointer, change) || followsName(ref.namespace, pointer, change)) return true;
    return fields.some((matches) => matches(pointer));
  };
}

/** Labels of an object itself by which charts name their version. Those of pods may be selected by other objects. */
const versionLabel = /^metadata\/labels\/(?:app\.kubernetes\.io~1version|helm\.sh~1chart|chart)$/;
/** Annotations by which charts restart pods if a ConfigMap or Secret changes, which is shown itself. */
const checksum = /^spec\/template\/metadata\/annotations\/checksum~1[^/]+$/;
const digest = /^[0-9a-f]{8,128}$/i;

function followsVersion(pointer: string, { type, oldValue, newValue }: FieldChange): boolean {
  if (type !== "update" || typeof oldValue !== "string" || typeof newValue !== "string") return false;
  return versionLabel.test(pointer) || (checksum.test(pointer) && digest.test(oldValue) && digest.test(newValue));
}
