/** Reads the paths of changed fields. Pure. */
import type { FieldChange } from "../model.ts";

/** kluctl writes `spec.ports[0].port` and `metadata.labels["a.b/c"]`. */
export function pathOf({ jsonPath }: FieldChange): string {
  return jsonPath.replace(/^\$?\.?/, "");
}

/** A field or the index of a list. */
export type Step = string | number;

const mostSteps = 32;
/** Longer lists would be mostly holes. */
const longestList = 200;

const step = /\.?([A-Za-z_][\w-]*)|\[(\d{1,6})\]|\["((?:[^"\\]|\\.)*)"\]/y;

/** `undefined` for a path that is not one of kluctl's, or too long. */
export function stepsOf(path: string): Step[] | undefined {
  const steps: Step[] = [];
  step.lastIndex = 0;
  for (let end = 0; end < path.length; end = step.lastIndex) {
    const [, name, index, quoted] = step.exec(path) ?? [];
    const found = name ?? (index === undefined ? quoted : Number(index));
    if (found === undefined || steps.length === mostSteps) return undefined;
    if (typeof found === "number" && found >= longestList) return undefined;
    steps.push(found);
  }
  return steps.length === 0 ? undefined : steps;
}

/** A JSON pointer (RFC 6901), without the slash at its beginning. */
export function pointerOf(steps: readonly Step[]): string {
  return steps.map((each) => String(each).replaceAll("~", "~0").replaceAll("/", "~1")).join("/");
}
