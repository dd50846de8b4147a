/**
 * Warm renderers. Most of the cost of a kluctl run is starting four Python interpreters; here they are forks of one
 * that has already started. If anything goes wrong, kluctl starts its own as usual.
 */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "../../log.ts";
import { createWorkDirectories, removeDirectory } from "../../kit/work-directories.ts";
import type { UnpackedBy } from "../unpacked-by.ts";
import type { Binary } from "../version.ts";
import { forkServer } from "./fork-server.ts";
import { type ForkServer, type RendererLimits, startForkServer } from "./fork-server-process.ts";
import { createLayout, type Layout, type Unpacked, type Ways } from "./layout.ts";

/** How the renderers of a run start. `fallback`: they should have been warm, but something prevented it. */
export type RendererStart = "warm" | "cold" | "fallback";

export interface WarmRenderers {
  /**
   * Resolves with the settings with which this kluctl starts warm renderers; `undefined` if there are none, none yet, or
   * if `cold` is set. If an earlier server has left this kluctl's Python unpacked, the first call starts them.
   */
  find(binary: Binary, cold?: boolean): Promise<Ways | undefined>;
  /**
   * Reports that this kluctl has run with cold renderers and has therefore unpacked its Python, which warm renderers
   * need.
   */
  unpacked(binary: Binary): void;
  stop(): Promise<void>;
}

export interface WarmRenderersDeps {
  readonly unpacked: Unpacked;
  readonly unpackedBy: UnpackedBy;
  readonly workDir: string;
  /** The environment that every kluctl gets. */
  readonly env: Readonly<Record<string, string>>;
  readonly limits: RendererLimits;
  readonly log: Logger;
  readonly observe?: ((start: RendererStart) => void) | undefined;
}

/**
 * The directory of one kluctl's stand-in. It is kept until the server stops, because a kluctl that was started with it
 * may still run.
 */
interface Place {
  readonly layout: Layout;
  readonly dir: string;
  readonly socket: string;
  readonly script: string;
  readonly directories: readonly string[];
}

interface Running {
  readonly file: string;
  readonly ways: Ways;
  readonly server: ForkServer;
}

const [firstRetryMs, longestRetryMs] = [60_000, 3_600_000];

export function createWarmRenderers({ env, limits, log, observe, ...deps }: WarmRenderersDeps): WarmRenderers {
  const { unpacked, unpackedBy } = deps;
  const [work, copies] = [createWorkDirectories(deps.workDir), createWorkDirectories(unpacked.copies)];
  const places = new Map<string, Place>();
  let running: Running | undefined;
  let starting: Promise<void> | undefined;
  /** Of the kluctl whose Python was looked for before its first run; resolves once that has started or failed. */
  let early: { readonly file: string; readonly done: Promise<void> } | undefined;
  let failed: { readonly file: string; readonly retryMs: number; readonly at: number } | undefined;
  let stopped = false;

  function fail(file: string, error: Error): void {
    if (running?.file === file) running = undefined;
    const retryMs = failed?.file === file ? Math.min(failed.retryMs * 2, longestRetryMs) : firstRetryMs;
    failed = { file, retryMs, at: performance.now() };
    log.warn({ error: error.message }, "kluctl's renderers start cold, which takes longer");
  }

  async function createPlace({ file, version }: Binary): Promise<Place> {
    const directories: string[] = [];
    const create = async (where: typeof work) => {
      const path = await where.create();
      directories.push(path);
      return path;
    };
    try {
      await copies.sweep();
      const dir = await create(work);
      const [socket, script] = [join(dir, "socket"), join(dir, "fork-server.py")];
      await writeFile(script, forkServer);
      const searchPath = env["PATH"] ?? "";
      const createCopy = () => create(copies);
      const layout = await createLayout({ version, unpacked, dir, createCopy, socket, searchPath });
      const place = { layout, dir, socket, script, directories };
      places.set(file, place);
      return place;
    } catch (error) {
      await Promise.all(directories.map(removeDirectory));
      throw error;
    }
  }

  async function startServer(file: string, { layout, dir, socket, script }: Place): Promise<ForkServer> {
    await rm(socket, { force: true }); // left by a fork server that crashed
    let refused = false;
    return startForkServer({
      python: layout.python,
      script,
      socket,
      env: { ...readAtStart(env), ...(layout.home && { PYTHONHOME: layout.home }) },
      cwd: dir,
      limits,
      onRefused(why) {
        observe?.("fallback");
        if (!refused) log.warn({ why }, "a renderer of kluctl starts cold, which takes longer");
        refused = true;
      },
      onEnded: (error) => fail(file, error),
    });
  }

  async function start(binary: Binary): Promise<void> {
    const { file, version } = binary;
    try {
      await running?.server.stop(); // of a kluctl that was replaced
      running = undefined;
      if (process.platform !== "linux") throw new Error("warm renderers need Linux");
      const place = places.get(file) ?? (await createPlace(binary));
      const server = await startServer(file, place);
      running = { file, ways: place.layout.ways, server };
      log.info({ version, pid: server.pid }, "kluctl's renderers are kept warm");
    } catch (error) {
      fail(file, error as Error);
    }
  }

  function begin(binary: Binary): Promise<void> {
    return (starting ??= start(binary).finally(() => {
      starting = undefined;
    }));
  }

  async function startEarly(binary: Binary): Promise<void> {
    if (running !== undefined || !(await unpackedBy.is(binary)) || stopped) return;
    await begin(binary);
    if (running === undefined) failed = undefined; // the first run unpacks what is missing
  }

  return {
    async find(binary, cold = false) {
      const { file } = binary;
      // Never for long: the fork server has its own limit, and four interpreters take longer to start than one.
      if (!cold && early?.file !== file) early = { file, done: startEarly(binary) };
      if (!cold) await early?.done;
      const ways = !cold && running?.file === file ? running.ways : undefined;
      observe?.(ways ? "warm" : !cold && failed?.file === file ? "fallback" : "cold");
      return ways;
    },

    unpacked(binary) {
      if (stopped || starting || running?.file === binary.file) return;
      if (failed?.file === binary.file && performance.now() < failed.at + failed.retryMs) return;
      void begin(binary).then(() => (running?.file === binary.file ? unpackedBy.remember(binary) : undefined));
    },

    async stop() {
      stopped = true;
      await starting;
      await running?.server.stop();
      await Promise.all(Array.from(places.values()).flatMap(({ directories }) => directories.map(removeDirectory)));
    },
  };
}

/** Returns the variables that an interpreter reads at its start: they must be the same for server and renderers. */
function readAtStart(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => /^(PATH$|PYTHON|LC_|LANG|TZ)/.test(name)));
}
