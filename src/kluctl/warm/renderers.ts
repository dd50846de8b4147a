/**
 * Warm renderers: most of what a run of kluctl costs is that four Pythons start. Here they are copies of one that has
 * started already. Whatever speaks against that, kluctl starts its own, as it always does.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "../../log.ts";
import { createWorkDirectories, removeDirectory } from "../../work-directories.ts";
import type { Binary } from "../version.ts";
import { forkServer } from "./fork-server.ts";
import { type ForkServer, type RendererLimits, startForkServer } from "./fork-server-process.ts";
import { createLayout, type Unpacked, type Ways } from "./layout.ts";

/** How the renderers of a run start: `fallback` where they should have been warm and something was in the way. */
export type RendererStart = "warm" | "cold" | "fallback";

export interface WarmRenderers {
  /** What makes this kluctl start warm renderers; `undefined` if there are none, none yet, or if it is to be cold. */
  find(binary: Binary, cold?: boolean): Ways | undefined;
  /** Says that this kluctl has run with cold renderers, and so has unpacked its Python: what is needed to have warm ones. */
  unpacked(binary: Binary): void;
  stop(): Promise<void>;
}

export interface WarmRenderersDeps {
  readonly unpacked: Unpacked;
  readonly workDir: string;
  /** What every kluctl gets. */
  readonly env: Readonly<Record<string, string>>;
  readonly limits: RendererLimits;
  readonly log: Logger;
  readonly observe?: ((start: RendererStart) => void) | undefined;
}

interface Running {
  readonly file: string;
  readonly ways: Ways;
  readonly server: ForkServer;
}

const [firstRetryMs, longestRetryMs] = [60_000, 3_600_000];

export function createWarmRenderers({ env, limits, log, observe, ...deps }: WarmRenderersDeps): WarmRenderers {
  const work = createWorkDirectories(deps.workDir);
  const directories: string[] = [];
  let running: Running | undefined;
  let starting: Promise<void> | undefined;
  let failed: { readonly file: string; readonly retryMs: number; readonly at: number } | undefined;
  let stopped = false;

  function fail(file: string, error: Error): void {
    if (running?.file === file) running = undefined;
    const retryMs = failed?.file === file ? Math.min(failed.retryMs * 2, longestRetryMs) : firstRetryMs;
    failed = { file, retryMs, at: performance.now() };
    log.warn({ error: error.message }, "kluctl's renderers start cold, which takes longer");
  }

  async function start({ file, version }: Binary): Promise<void> {
    try {
      await running?.server.stop(); // of a kluctl that was replaced
      running = undefined;
      if (process.platform !== "linux") throw new Error("warm renderers need Linux");
      const dir = await work.create();
      directories.push(dir);
      const [socket, script] = [join(dir, "socket"), join(dir, "fork-server.py")];
      await writeFile(script, forkServer);
      const searchPath = env["PATH"] ?? "";
      const { python, home, ways } = await createLayout({ version, unpacked: deps.unpacked, dir, socket, searchPath });
      let refused = false;
      const server = await startForkServer({
        python,
        script,
        socket,
        env: { ...readAtStart(env), ...(home && { PYTHONHOME: home }) },
        cwd: dir,
        limits,
        onRefused(why) {
          observe?.("fallback");
          if (!refused) log.warn({ why }, "a renderer of kluctl starts cold, which takes longer");
          refused = true;
        },
        onEnded: (error) => fail(file, error),
      });
      running = { file, ways, server };
      log.info({ version, pid: server.pid }, "kluctl's renderers are kept warm");
    } catch (error) {
      fail(file, error as Error);
    }
  }

  return {
    find({ file }, cold = false) {
      const ways = !cold && running?.file === file ? running.ways : undefined;
      observe?.(ways ? "warm" : !cold && failed?.file === file ? "fallback" : "cold");
      return ways;
    },

    unpacked(binary) {
      if (stopped || starting || running?.file === binary.file) return;
      if (failed?.file === binary.file && performance.now() < failed.at + failed.retryMs) return;
      starting = start(binary).finally(() => {
        starting = undefined;
      });
    },

    async stop() {
      stopped = true;
      await starting;
      await running?.server.stop();
      await Promise.all(directories.map(removeDirectory));
    },
  };
}

/** The variables that an interpreter reads at its start: they have to be the renderers'. */
function readAtStart(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => /^(PATH$|PYTHON|LC_|LANG|TZ)/.test(name)));
}
