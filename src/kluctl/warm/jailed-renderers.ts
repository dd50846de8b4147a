/**
 * Renderers of previews: each runs in a jail in which it can read only the project and Python. They are forks of a fork
 * server that serves only previews and whose forks confine themselves. Where no fork server can be started, or it is
 * turned off, each renderer starts cold, in a jail as well.
 */
import { createHash, randomBytes } from "node:crypto";
import { readdir, realpath, writeFile } from "node:fs/promises";
import { basename, delimiter, dirname, join } from "node:path";
import { rendererFilter } from "../../jail/filter.ts";
import { type JailLimits, toText } from "../../jail/jail.ts";
import type { Logger } from "../../log.ts";
import { createWorkDirectories, removeDirectory } from "../../kit/work-directories.ts";
import { type Binary, isSince } from "../version.ts";
import { forkServer } from "./fork-server.ts";
import { type ForkServer, type RendererLimits, startForkServer } from "./fork-server-process.ts";
import { createLayout, type Layout, type Unpacked, type Ways } from "./layout.ts";
import { passVariable, readsVariable } from "./light-stand-in.ts";

export interface JailedRenderers {
  /**
   * Prepares renderers for a kluctl whose Python is already unpacked, because kluctl cannot unpack it in a jail. Its
   * first run must be one of ours: the fork server learns from it which libraries to import.
   */
  open(binary: Binary): Promise<JailedPlace>;
  stop(): Promise<void>;
}

export interface JailedPlace {
  readonly ways: Ways;
  /** Paths that kluctl has to read and execute. */
  readonly programs: readonly string[];
  /** The unpacked directories that kluctl looks for, by name. */
  readonly unpacked: ReadonlyMap<string, string>;
  /**
   * How the renderers of this place start. `gone`: the fork server has ended, or it failed to start a while ago; open a
   * new place, which may have one.
   */
  start(): "warm" | "cold" | "gone";
  /** Call before a run; its renderers may read these paths. */
  admit(reads: readonly string[]): Promise<Admission>;
  /** Call when no further run will use this place. It closes when the last admitted run has ended. */
  retire(): void;
}

/** The admission of one run. */
export interface Admission {
  readonly env: Readonly<Record<string, string>>;
  /** The processes of its renderers, unless they start cold. Each leads a process group. */
  renderers(): readonly number[];
  /** Call once kluctl has ended: the run gets no more renderers. */
  end(): void;
}

export interface JailedRenderersDeps {
  readonly unpacked: Unpacked;
  readonly workDir: string;
  readonly searchPath: string;
  /** The variables of the server's environment that an interpreter reads at its start. */
  readonly env: Readonly<Record<string, string>>;
  readonly limits: RendererLimits;
  readonly jail: { readonly limits: Required<JailLimits>; readonly abi?: number | undefined; readonly files: boolean };
  /** Whether `python3` from the search path replaces kluctl's own. */
  readonly systemPython?: boolean | undefined;
  /** Whether to start a fork server. */
  readonly warm: boolean;
  readonly log: Logger;
}

interface Served extends ForkServer {
  hasEnded(): boolean;
}

/** Devices, time zones and shared libraries: they hold no secrets and are the same for every run. */
const common = ["/dev/null", "/dev/urandom", "/etc/localtime", "/etc/ld.so.cache", "/usr", "/lib", "/lib64"];
const loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];

/** Delay before another attempt if the fork server did not start. */
const retryMs = 600_000;

export function createJailedRenderers(deps: JailedRenderersDeps): JailedRenderers {
  const { unpacked, env, limits, jail, warm, log } = deps;
  const [work, copies] = [createWorkDirectories(deps.workDir), createWorkDirectories(unpacked.copies)];
  const places = new Set<() => Promise<void>>();
  /** The renderers of each admitted run. */
  const started = new Map<string, number[]>();

  async function open(binary: Binary): Promise<JailedPlace> {
    const directories: string[] = [];
    const create = async (where: typeof work) => {
      const path = await where.create();
      directories.push(path);
      return path;
    };
    try {
      const dir = await create(work);
      const [socket, script] = [join(dir, "socket"), join(dir, "fork-server.py")];
      await writeFile(script, forkServer);
      const original = await (isSince(binary, 2, 23)
        ? findUnpacked(unpacked.python)
        : findUnpacked(unpacked.temporary, "go-embedded-"));
      const interpreter = deps.systemPython ? await findPython(deps.searchPath) : undefined;
      const toJail = (interpreter: string) =>
        toText({
          read: [...original.values(), dirname(dirname(interpreter)), ...common],
          execute: [interpreter, ...loaders],
          write: [],
          filter: rendererFilter({ starts: true }),
          limits: jail.limits,
          demands: { abi: jail.abi, files: jail.files, network: false },
          environment: ["PYTHON", "LC_", "LANG", "TZ"],
        });
      const layout = await createLayout({
        version: binary.version,
        unpacked,
        dir,
        createCopy: () => create(copies),
        socket,
        searchPath: deps.searchPath,
        jail: toJail,
        interpreter,
      });
      const found = await withCopy(original, layout);
      const libraries = [...found.values(), ...(interpreter ? [dirname(dirname(interpreter))] : [])];
      const server = warm ? await startServer({ layout, dir, socket, script }, libraries) : undefined;
      const admitting = createAdmitting(server, async () => {
        await server?.stop();
        await Promise.all(directories.map(removeDirectory));
      });
      return { ways: layout.ways, programs: [dir, ...libraries], unpacked: found, ...admitting };
    } catch (error) {
      await Promise.all(directories.map(removeDirectory));
      throw error;
    }
  }

  /**
   * Logs the failure and returns `undefined` if the fork server cannot start: renderers that start cold are just as
   * safe.
   */
  async function startServer(
    { layout, dir, socket, script }: { layout: Layout; dir: string; socket: string; script: string },
    libraries: readonly string[],
  ): Promise<Served | undefined> {
    let [logged, ended] = [false, false];
    const given = {
      read: [...libraries, ...common],
      filter: rendererFilter({ starts: false }),
      limits: jail.limits,
      demandsFiles: jail.files,
      ...(jail.abi !== undefined && { abi: jail.abi }),
    };
    try {
      const server = await startForkServer({
        python: layout.python,
        script,
        socket,
        env: { ...env, ...(layout.home && !deps.systemPython && { PYTHONHOME: layout.home }) },
        cwd: dir,
        limits,
        jail: JSON.stringify(given),
        onRefused(why) {
          if (!logged) log.warn({ why }, "preview renderer starts cold, which takes longer");
          logged = true;
        },
        onRenderer: (run, pid) => void started.get(run)?.push(pid),
        onEnded(error) {
          ended = true;
          log.warn({ error: error.message }, "preview renderers must be restarted");
        },
      });
      log.info({ pid: server.pid }, "preview renderers are kept warm");
      return { ...server, hasEnded: () => ended };
    } catch (error) {
      log.warn(
        { why: (error as Error).message },
        "preview renderers start cold, which takes longer: no Python that can confine itself",
      );
      return undefined;
    }
  }

  function createAdmitting(
    server: Served | undefined,
    close: () => Promise<void>,
  ): Pick<JailedPlace, "start" | "admit" | "retire"> {
    let [admitted, retired] = [0, false];
    const triedAt = performance.now();
    const isGone = () => (server ? server.hasEnded() : warm && performance.now() > triedAt + retryMs);
    places.add(close);
    const closeIfUnused = (): void => {
      if (!retired || admitted > 0 || !places.delete(close)) return;
      close().catch((error: unknown) => log.warn({ err: error }, "could not remove a renderers' directory"));
    };
    return {
      start: () => (isGone() ? "gone" : server ? "warm" : "cold"),

      async admit(reads) {
        admitted++;
        const pass = randomBytes(32).toString("base64url");
        const run = createHash("sha256").update(pass).digest("hex");
        started.set(run, []);
        await server?.send({ run, reads });
        return {
          env: { [readsVariable]: reads.join("\n"), [passVariable]: pass },
          renderers: () => started.get(run) ?? [],
          end() {
            started.delete(run);
            void server?.send({ run });
            admitted--;
            closeIfUnused();
          },
        };
      },

      retire() {
        retired = true;
        closeIfUnused();
      },
    };
  }

  return {
    open,
    stop: async () => void (await Promise.all([...places].map((close) => close()))),
  };
}

async function findPython(searchPath: string): Promise<string> {
  for (const folder of searchPath.split(delimiter)) {
    const path = await realpath(join(folder, "python3")).catch(() => undefined);
    if (path !== undefined) return path;
  }
  throw new Error("there is no python3 on PATH");
}

/**
 * Returns only the unpacked directories, nothing else: for kluctl up to 2.22 the directory also holds temporary files
 * of every deployment.
 */
async function findUnpacked(dir: string, prefix = ""): Promise<Map<string, string>> {
  const names = (await readdir(dir)).filter((name) => name.startsWith(prefix) && !name.endsWith(".lock"));
  return new Map(await Promise.all(names.map(async (name) => [name, await realpath(join(dir, name))] as const)));
}

/** Replaces the original Python with its copy that contains the stand-in. */
async function withCopy(original: ReadonlyMap<string, string>, { home }: Layout): Promise<Map<string, string>> {
  const found = new Map(original);
  if (home !== undefined) found.set(basename(home), await realpath(home));
  return found;
}
