/** Explains why nothing was compared. */
import { describeConflict, explainOrigin } from "../../comment/obstacle.ts";
import type { Report } from "../../model/report.ts";
import { oneLine, plainMarkup, toLines } from "./safe-text.ts";

export function renderObstacle(obstacle: NonNullable<Report["obstacle"]>, report: Report): string[] {
  switch (obstacle.kind) {
    case "fork":
    case "no-branch":
      return [...explainOrigin(obstacle, report, plainMarkup(String))];
    case "conflict":
      return [[describeConflict(obstacle), ...obstacle.paths.map((path) => `  ${oneLine(path)}`)].join("\n")];
    case "failed":
      return [
        toLines(obstacle.message)
          .map((line) => `  ${line}`)
          .join("\n"),
      ];
  }
}
