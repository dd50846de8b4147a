/** The programs of the demo, in the order in which it needs them. */
import { controlPlaneTools } from "../parts/control-plane.ts";
import type { ToolName } from "../tool-table.ts";
import { findEachTool, type FindOptions } from "../tools.ts";

/** Those of the first push, then Gitea for pull requests, then kubectl for the user. */
export const demoTools = ["kluctl", "redis-server", ...controlPlaneTools, "gitea", "kubectl"] as const;

type DemoTool = (typeof demoTools)[number];

export interface Programs {
  /** Resolves with the path of the program when it is there. */
  readonly paths: Readonly<Partial<Record<ToolName, Promise<string>>>>;
  /** Whether one of them is still missing. */
  areMissing(...names: readonly DemoTool[]): boolean;
}

/** Resolves when it is known which are missing; these are obtained in the background. */
export async function findPrograms(wanted: (name: DemoTool) => boolean, options: FindOptions): Promise<Programs> {
  const { paths, missing } = await findEachTool(demoTools.filter(wanted), options);
  const open = new Set(missing);
  for (const name of missing) {
    paths[name].then(
      () => open.delete(name),
      () => undefined, // reported by what needs the program
    );
  }
  return { paths, areMissing: (...names) => names.some((name) => open.has(name)) };
}
