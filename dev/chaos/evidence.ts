/** The evidence that a failed episode leaves behind. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Violation } from "./checker.ts";
import type { Stage } from "./stage.ts";

/** Name of the file to begin with. */
export const readMe = "README.txt";

export interface Evidence {
  readonly stage: Stage;
  /** The settings of the episode. */
  readonly chosen: object;
  readonly story: readonly string[];
  readonly faults: readonly string[];
  readonly violations: readonly Violation[];
  readonly broken: string | undefined;
}

/** Writes the evidence beside the logs, which are in the folder already. */
export async function writeEvidence(
  folder: string,
  { stage, chosen, story, faults, violations, broken }: Evidence,
  replay: string,
): Promise<void> {
  const history = stage.history();
  const pullRequests = (await stage.pullRequests?.facts().catch(() => undefined)) ?? [];
  const lines = (all: readonly unknown[]) => all.map((one) => `${JSON.stringify(one)}\n`).join("");
  const words = [
    `Replay: ${replay}`,
    `Settings: ${JSON.stringify(chosen)}`,
    "",
    ...violations.map(({ invariant, what }) => `VIOLATED: ${invariant}\n  ${what}`),
    ...(broken === undefined ? [] : [`BROKEN: ${broken}`]),
    "",
    "Story:",
    ...story,
    "",
    "Faults that struck:",
    ...faults,
  ];
  await Promise.all([
    writeFile(join(folder, readMe), `${words.join("\n")}\n`),
    writeFile(join(folder, "journal.jsonl"), lines(history.runs)),
    writeFile(join(folder, "objects.jsonl"), lines(history.objects)),
    writeFile(join(folder, "leases.jsonl"), lines(history.leases)),
    writeFile(join(folder, "statuses.jsonl"), lines(history.statuses)),
    writeFile(join(folder, "pull-requests.jsonl"), lines(pullRequests)),
    writeFile(join(folder, "pushes.jsonl"), lines([...history.pushes, ...history.deliveries])),
  ]);
}
