/** Traces one push in a process of its own, and counts the files on its way. */
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { execPath } from "node:process";
import { promisify } from "node:util";
import { startRedis } from "../parts/redis.ts";
import { createStateDir } from "../parts/state-dir.ts";
import { findTools } from "../tools.ts";
import { countSpine, type Entered, type Spine } from "./count.ts";
import { readSteps } from "./documented.ts";
import { readSources } from "./sources.ts";

export interface Extent {
  readonly files: number;
  /** All lines, with comments. */
  readonly lines: number;
}

/** What a newcomer reads in one sitting. */
export const goal: Extent = { files: 12, lines: 2_500 };

/** What it was when it was last measured, lines to the next fifty: it may only become less. */
export const limit: Extent = { files: 35, lines: 4_250 };

/** Through these, the reconciliation calls its own parts, so that others can wrap them. */
const seams = ["src/reconcile/parts.ts"];

const run = promisify(execFile);

/** Takes a few seconds. Throws if the push is not deployed. */
export async function measureSpine(root: string, say: (line: string) => void): Promise<Spine> {
  const tools = await findTools(["redis-server"], { say });
  const state = await createStateDir();
  try {
    const redis = await startRedis({ tools, stateDir: state.path });
    try {
      const dir = join(state.path, "push");
      await mkdir(dir);
      const fixture = join(root, "test/support/push-fixture.ts");
      const { stdout } = await run(execPath, [fixture, dir, redis.url], { cwd: root, timeout: 120_000 });
      const entered = JSON.parse(stdout) as Entered[];
      return countSpine({ entered, steps: readSteps(root), seams, sources: readSources(root) });
    } finally {
      await redis.stop();
    }
  } finally {
    await state.remove();
  }
}

export function extentOf({ counted }: Spine): Extent & { readonly code: number } {
  const sum = (of: (one: Spine["counted"][number]) => number) => counted.reduce((total, one) => total + of(one), 0);
  return { files: counted.length, lines: sum(({ lines }) => lines), code: sum(({ code }) => code) };
}

/** What is wrong with the way of a push, as sentences. */
export function explainExtent(spine: Spine): string[] {
  const { files, lines } = extentOf(spine);
  const wrong = spine.missed.map((file) => `${file} is on the list, but a push does not pass through it`);
  if (files > limit.files) wrong.push(`a push passes through ${files} files, at most ${limit.files} were agreed`);
  if (lines > limit.lines) wrong.push(`a push passes through ${lines} lines, at most ${limit.lines} were agreed`);
  return wrong;
}
