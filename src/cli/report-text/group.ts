/** One block for each group of deployments in which merging has the same effect. */
import type { Group } from "../../comment/groups.ts";
import { describeEncrypted, describePruneThatWaits, describeUnattributed } from "../../comment/sections.ts";
import { describeDrift } from "../../comment/table.ts";
import { keyText } from "../../model.ts";
import type { Preview } from "../../model/report.ts";
import { describeChanges, describeNoChange, describePreview, describeState, plural } from "../../preview/summary.ts";
import { renderMessages } from "./messages.ts";
import { renderObject } from "./object.ts";
import type { Colouring } from "./palette.ts";
import { oneLine, plainMarkup, sentence, toLines } from "./safe-text.ts";

export function renderGroup({ previews, preview, sameNamespaces }: Group, colour: Colouring): string {
  const details =
    preview.state === "failed"
      ? toLines(preview.failure ?? "The reason is unknown.")
      : describeDetails(preview, sameNamespaces, colour);
  return [...renderHeading(previews, preview, colour), ...details.map((line) => `  ${line}`)].join("\n");
}

function renderHeading(previews: readonly Preview[], preview: Preview, colour: Colouring): string[] {
  const result = resultOf(preview, colour);
  if (previews.length === 1) return [`${placeOf(preview, colour)}: ${[result, ...remarksOn(preview)].join("; ")}`];
  const same = `The same${preview.state === "failed" ? " failure" : ""} in ${plural(previews.length, "deployment")}`;
  return [
    `${colour("title", same)}: ${result}`,
    ...previews.map((one) => `  ${[`in ${placeOf(one, colour)}`, ...remarksOn(one)].join("; ")}`),
  ];
}

function resultOf(preview: Preview, colour: Colouring): string {
  const { state, counts } = preview;
  const result = state === "done" ? describeChanges(counts) || describeNoChange(preview) : describePreview(preview);
  return state === "failed" || counts.errors > 0 ? colour("removed", result) : result;
}

/** What may differ between deployments with the same effect. */
function remarksOn(preview: Preview): string[] {
  const { state, drift } = preview;
  return [...(state === "done" ? describeState(preview) : []), ...(drift > 0 ? [describeDrift(drift)] : [])];
}

function placeOf({ deployment, target, cluster }: Preview, colour: Colouring): string {
  return [
    colour("title", oneLine(keyText(deployment))),
    ...(target ? [`target ${oneLine(target)}`] : []),
    ...(cluster ? [`cluster ${oneLine(cluster)}`] : []),
  ].join(" · ");
}

function describeDetails(preview: Preview, withNamespace: boolean, colour: Colouring): string[] {
  const { counts, errors, warnings, objects, objectsLeftOut, concealed, encrypted, pruneWaits, unattributed } = preview;
  const markup = plainMarkup((text) => colour("caution", text));
  return [
    ...renderMessages("error", errors, counts.errors, colour),
    ...(unattributed === undefined ? [] : [describeUnattributed(sentence(unattributed), markup)]),
    ...(pruneWaits ? [describePruneThatWaits(pruneWaits, markup)] : []),
    ...(encrypted ? [describeEncrypted(encrypted, markup)] : []),
    ...(concealed === undefined ? [] : [`Only counts are shown: ${sentence(concealed)}`]),
    ...objects.flatMap((object) => renderObject(object, withNamespace, colour)),
    ...(objectsLeftOut > 0 ? [colour("aside", `… and ${plural(objectsLeftOut, "more object")}`)] : []),
    ...renderMessages("warning", warnings, counts.warnings, colour),
  ];
}
