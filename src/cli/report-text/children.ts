/** The deployments that the compared ones contain: see the section of the comment. */
import {
  describeChild,
  describeChildNotes,
  describeUnshownChildren,
  explainChildrenHere,
  titleOfChildren,
} from "../../comment/children.ts";
import { keyText } from "../../model.ts";
import type { ChildPreview, ChildPreviews } from "../../model/report.ts";
import { plural } from "../../preview/summary.ts";
import { renderObject } from "./object.ts";
import type { Colouring } from "./palette.ts";
import { oneLine, plainMarkup, sentence, toLines } from "./safe-text.ts";

export function renderChildren(children: ChildPreviews, colour: Colouring): string {
  return [
    colour("title", titleOfChildren(children)),
    colour("aside", `  ${explainChildrenHere}`),
    ...children.previews.flatMap((child) => renderChild(child, colour).map((line) => `  ${line}`)),
    ...describeUnshownChildren(children, { code: oneLine }, sentence).map((line) => `  ${line}`),
  ].join("\n");
}

function renderChild(child: ChildPreview, colour: Colouring): string[] {
  const { action, preview } = child;
  const { objects, objectsLeftOut, failure } = preview;
  const markup = plainMarkup(String);
  const details = [
    ...describeChildNotes(child, markup),
    ...(preview.state === "failed" ? toLines(failure ?? "The reason is unknown.") : []),
    ...objects.flatMap((object) => renderObject(object, true, colour)),
    ...(objectsLeftOut > 0 ? [colour("aside", `… and ${plural(objectsLeftOut, "more object")}`)] : []),
  ];
  const name = colour("title", oneLine(keyText(preview.deployment)));
  return [`${action} ${name} ${describeChild(child, markup)}`, ...details.map((line) => `  ${line}`)];
}
