/**
 * Renderers of previews: each in a jail that lets it read the project and Python, and nothing else. They are copies of a
 * fork server that serves previews alone and whose copies confine themselves; where there can be none, or there is to be
 * none, each starts cold, in a jail as well.
 */
import { createHash, randomBytes } from "node:crypto";
import { readdir, realpath, writeFile } from "node:fs/promises";
import { basename, delimiter, dirname, join } from "node:path";
import { rendererFilter } from "../../jail/filter.ts";
import { type JailLimits, toText } from "../../jail/jail.ts";
import type { Logger } from "../../log.ts";
import { createWorkDirectories, removeDirectory } from "../../work-directories.ts";
import { type Binary, isSince } from "../version.ts";
import { forkServer } from "./fork-server.ts";
import { type ForkServer, type RendererLimits, startForkServer } from "./fork-server-process.ts";
import { createLayout, type Layout, type Unpacked, type Ways } from "./layout.ts";
import { passVariable, readsVariable } from "./light-stand-in.ts";

export interface JailedRenderers {
  /**
   * For a kluctl whose Python lies unpacked already: nothing in a jail can do that. Its first run has to be one of ours: the
   * fork server learns from it which libraries to import.
   */
  open(binary: Binary): Promise<JailedPlace>;
  stop(): Promise<void>;
}

export interface JailedPlace {
  readonly ways: Ways;
  /** What kluctl has to read and to start. */
  readonly programs: readonly string[];
  /** The unpacked directories that kluctl looks for, by their name. */
  readonly unpacked: ReadonlyMap<string, string>;
  /** How its renderers start. Where the fork server has ended, or could not start a while ago, another place has another. */
  start(): "warm" | "cold" | "gone";
  /** Before a run whose renderers may read this. */
  admit(reads: readonly string[]): Promise<Admission>;
  /** When it is to be used no more. It ends with the last of the runs that were admitted. */
  retire(): void;
}

/** Of one run. */
export interface Admission {
  readonly env: Readonly<Record<string, string>>;
  /** Once kluctl has ended: no renderer is given to it any more. */
  end(): void;
}

export interface JailedRenderersDeps {
  readonly unpacked: Unpacked;
  readonly workDir: string;
  readonly searchPath: string;
  /** What an interpreter reads at its start, of the server's environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly limits: RendererLimits;
  readonly jail: { readonly limits: Required<JailLimits>; readonly abi?: number | undefined; readonly files: boolean };
  /** Whether `python3` of the search path takes the place of kluctl's. */
  readonly systemPython?: boolean | undefined;
  /** Else there is no fork server. */
  readonly warm: boolean;
  readonly log: Logger;
}

interface Served extends ForkServer {
  hasEnded(): boolean;
}

/** Of time zones and shared libraries: no secrets, and the same for everybody. */
const common = ["/dev/null", "/dev/urandom", "/etc/localtime", "/etc/ld.so.cache", "/usr", "/lib", "/lib64"];
const loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];

/** After a fork server that did not start. */
const retryMs = 600_000;

export function createJailedRenderers(deps: JailedRenderersDeps): JailedRenderers {
  const { unpacked, env, limits, jail, warm, log } = deps;
  const [work, copies] = [createWorkDirectories(deps.workDir), createWorkDirectories(unpacked.copies)];
  const places = new Set<() => Promise<void>>();

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

  /** `undefined`, and told, where it cannot be: what there is instead is as safe. */
  async function startServer(
    { layout, dir, socket, script }: { layout: Layout; dir: string; socket: string; script: string },
    libraries: readonly string[],
  ): Promise<Served | undefined> {
    let [told, ended] = [false, false];
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
          if (!told) log.warn({ why }, "preview renderer starts cold, which takes longer");
          told = true;
        },
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
        await server?.tell({ run, reads });
        return {
          env: { [readsVariable]: reads.join("\n"), [passVariable]: pass },
          end() {
            void server?.tell({ run });
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

/** Never what else lies there: up to 2.22 it is a place for temporary files of every deployment. */
async function findUnpacked(dir: string, prefix = ""): Promise<Map<string, string>> {
  const names = (await readdir(dir)).filter((name) => name.startsWith(prefix) && !name.endsWith(".lock"));
  return new Map(await Promise.all(names.map(async (name) => [name, await realpath(join(dir, name))] as const)));
}

/** With the Python that has the stand-in in it, in place of the one it is a copy of. */
async function withCopy(original: ReadonlyMap<string, string>, { home }: Layout): Promise<Map<string, string>> {
  const found = new Map(original);
  if (home !== undefined) found.set(basename(home), await realpath(home));
  return found;
}
