/** The objects that a merge endangers, one line each. */
import { type Endangered, reasonsOf, scopeOf } from "../../comment/dangers.ts";
import { describeName } from "./object.ts";
import type { Colouring } from "./palette.ts";
import { plainMarkup, sentence } from "./safe-text.ts";

export function renderDanger({ danger, group, objects }: Endangered, deployments: number, colour: Colouring): string {
  const tone = danger.risk === "far-reaching" ? "caution" : "danger";
  const scope = scopeOf(group, deployments, plainMarkup(String));
  const lines = objects.map((object) => {
    const why = reasonsOf(object, danger, sentence);
    return `  ${describeName(object, group.sameNamespaces)}${why && ` – ${why}`}`;
  });
  return [`${colour(tone, danger.title)}${scope}:`, ...lines].join("\n");
}
