/**
 * Renderers of previews: each in a jail that lets it read the project and Python, and nothing else. They are copies of a
 * fork server that serves previews alone and whose copies confine themselves; where there can be none, as kluctl's Python
 * is linked statically up to 2.22, each starts cold, in a jail as well.
 */
import { readdir, realpath, rm, writeFile } from "node:fs/promises";
import { basename, delimiter, dirname, join } from "node:path";
import { rendererFilter } from "../../jail/filter.ts";
import { type JailLimits, toText } from "../../jail/jail.ts";
import type { Logger } from "../../log.ts";
import { createWorkDirectories, removeDirectory } from "../../work-directories.ts";
import { type Binary, isSince } from "../version.ts";
import { forkServer } from "./fork-server.ts";
import { type ForkServer, type RendererLimits, startForkServer } from "./fork-server-process.ts";
import { createLayout, type Layout, type Unpacked, type Ways } from "./layout.ts";

export interface JailedRenderers {
  /** For a kluctl whose Python lies unpacked already: nothing in a jail can do that. */
  find(binary: Binary): Promise<JailedPlace>;
  stop(): Promise<void>;
}

export interface JailedPlace {
  readonly ways: Ways;
  /** What kluctl has to read and to start. */
  readonly programs: readonly string[];
  /** The unpacked directories that kluctl looks for, by their name. */
  readonly unpacked: ReadonlyMap<string, string>;
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
  readonly log: Logger;
}

interface Opened extends JailedPlace {
  readonly server: ForkServer | undefined;
}

/** Of time zones and shared libraries: no secrets, and the same for everybody. */
const common = ["/dev/null", "/dev/urandom", "/etc/localtime", "/etc/ld.so.cache", "/usr", "/lib", "/lib64"];
const loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];

export function createJailedRenderers(deps: JailedRenderersDeps): JailedRenderers {
  const { unpacked, env, limits, jail, log } = deps;
  const [work, copies] = [createWorkDirectories(deps.workDir), createWorkDirectories(unpacked.copies)];
  const places = new Map<string, Promise<Opened>>();
  /** They stay: a kluctl that was started with what lies there may still run. */
  const used: string[] = [];

  async function open(binary: Binary): Promise<Opened> {
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
      const server = await startServer({ binary, layout, dir, socket, script }, libraries);
      used.push(...directories);
      return { ways: layout.ways, programs: [dir, ...libraries], unpacked: found, server };
    } catch (error) {
      await Promise.all(directories.map(removeDirectory));
      throw error;
    }
  }

  /** `undefined`, and told, where it cannot be: what there is instead is as safe. */
  async function startServer(
    { binary, layout, dir, socket, script }: { binary: Binary; layout: Layout; dir: string; socket: string; script: string }, // prettier-ignore
    libraries: readonly string[],
  ): Promise<ForkServer | undefined> {
    await rm(socket, { force: true });
    const given = {
      read: [...libraries, ...common],
      filter: rendererFilter({ starts: false }),
      limits: jail.limits,
      demandsFiles: jail.files,
      ...(jail.abi !== undefined && { abi: jail.abi }),
    };
    try {
      return await startForkServer({
        python: layout.python,
        script,
        socket,
        env: { ...env, ...(layout.home && !deps.systemPython && { PYTHONHOME: layout.home }) },
        cwd: dir,
        limits,
        jail: JSON.stringify(given),
        onRefused: (why) => log.warn({ why }, "a renderer of a preview starts cold, which takes longer"),
        onEnded(error) {
          places.delete(binary.file); // the next preview starts another
          log.warn({ error: error.message }, "the renderers of previews have to be started again");
        },
      });
    } catch (error) {
      log.info(
        { why: (error as Error).message },
        "renderers of previews start cold: this Python cannot confine itself",
      );
      return undefined;
    }
  }

  return {
    find(binary) {
      const known = places.get(binary.file);
      if (known) return known;
      const opening = open(binary);
      places.set(binary.file, opening);
      opening.catch(() => places.delete(binary.file)); // another try may find what was missing
      return opening;
    },

    async stop() {
      for (const opening of places.values()) {
        const opened = await opening.catch(() => undefined);
        await opened?.server?.stop();
      }
      await Promise.all(used.map(removeDirectory));
    },
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
