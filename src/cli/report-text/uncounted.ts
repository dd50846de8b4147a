/** The changes that are not counted: commits that are not deployed, drift, and noise. */
import { explainUncounted, type Uncounted, type UncountedGroup, titleOfUncounted } from "../../comment/uncounted.ts";
import { keyText } from "../../model.ts";
import { plural } from "../../preview/summary.ts";
import { renderObject } from "./object.ts";
import type { Colouring } from "./palette.ts";
import { oneLine } from "./safe-text.ts";

export function renderUncounted(uncounted: Uncounted, baseBranch: string, colour: Colouring): string {
  const base = oneLine(baseBranch);
  return [
    colour("title", titleOfUncounted(uncounted, base)),
    colour("aside", `  ${explainUncounted(uncounted, base)}`),
    ...uncounted.groups.flatMap((group) => renderGroup(group, colour).map((line) => `  ${line}`)),
  ].join("\n");
}

function renderGroup({ previews, changes }: UncountedGroup, colour: Colouring): string[] {
  const names = previews.map(({ deployment }) => oneLine(keyText(deployment)));
  const { objects, objectsLeftOut } = changes;
  return [
    `In ${names.join(", ")}:`,
    ...objects.flatMap((object) => renderObject(object, true, colour)).map((line) => `  ${line}`),
    ...(objectsLeftOut > 0 ? [colour("aside", `  … and ${plural(objectsLeftOut, "more object")}`)] : []),
  ];
}
