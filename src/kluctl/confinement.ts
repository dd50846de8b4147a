/** Runs kluctl on projects that nobody has approved yet: in a jail, with directories and access of their own. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Memory } from "../machine/available-memory.ts";
import { KluctlUnavailableError, PreviewRefusedError } from "../errors.ts";
import { kluctlFilter } from "../jail/filter.ts";
import { inJail, type Jail } from "../jail/jail.ts";
import type { Logger } from "../log.ts";
import type { Confine, ConfinedAccess } from "./confine.ts";
import type { Directories, OwnDirectory } from "./directories.ts";
import { type Environment, toConfinedEnvironment } from "./environment.ts";
import type { AnyRun } from "./job-files.ts";
import { createIdleWatch } from "./idle.ts";
import { noAccess, notIsolated } from "./offline.ts";
import { type ProcessLimits, runProcess } from "./process.ts";
import { readContainerMemory, watchMemory } from "./memory.ts";
import { watchRoom } from "./room.ts";
import type { UnpackedBy } from "./unpacked-by.ts";
import { type Binary, isSince } from "./version.ts";
import type { RendererLimits } from "./warm/fork-server-process.ts";
import { createJailedRenderers, type JailedPlace } from "./warm/jailed-renderers.ts";
import type { RendererStart } from "./warm/renderers.ts";
import { type StartWatched, startWatched, type Watched } from "./watched.ts";

export interface ConfinedLimits {
  /** Private memory of kluctl, and of each renderer. */
  readonly kluctlBytes: number;
  readonly previewRendererBytes: number;
  /** CPU time of a renderer. */
  readonly previewRendererSeconds: number;
  /** Total time for which a run may do nothing at all. */
  readonly idleMs: number;
  /** Everything that a run writes. */
  readonly writtenBytes: number;
  readonly writtenFiles: number;
}

export const defaultConfinedLimits: ConfinedLimits = {
  kluctlBytes: 1024 ** 3,
  previewRendererBytes: 512 * 1024 ** 2,
  previewRendererSeconds: 60,
  idleMs: 120_000,
  writtenBytes: 1024 ** 3,
  writtenFiles: 100_000,
};

/** The isolation features that the kernel must offer; without them nothing is started. */
export interface JailDemands {
  readonly files: boolean;
  readonly network: boolean;
  /** Whether there is nothing to connect to, whatever the kernel offers; checked before an offline render. */
  readonly reachesNothing?: (() => boolean) | undefined;
  /** The newest Landlock version to use; for tests. */
  readonly abi?: number | undefined;
}

export interface ConfinementDeps {
  readonly confine: Confine;
  readonly demands: JailDemands;
  readonly directories: Directories;
  readonly unpackedBy: UnpackedBy;
  readonly workDir: string;
  readonly env: Environment;
  /** Whether `python3` from PATH replaces kluctl's own. */
  readonly systemPython?: boolean | undefined;
  /** Whether to keep renderers warm. */
  readonly warm: boolean;
  readonly observe?: ((start: RendererStart) => void) | undefined;
  readonly limits: ProcessLimits & RendererLimits & ConfinedLimits;
  readonly start?: StartWatched | undefined;
  /** Reads the container's memory use; `undefined` if it has no limit. */
  readonly memory?: (() => Memory | undefined) | undefined;
  readonly log: Logger;
}

export interface Confinement {
  /**
   * Prepares in the background and once per binary, so that the first run does not wait for it. The first run reports
   * any failure.
   */
  prepare(binary: Binary): void;
  /** `offline`: without any network access, and only if isolation is complete. */
  begin(binary: Binary, run: AnyRun, signal: AbortSignal, how: { readonly offline: boolean }): Promise<ConfinedRun>;
  stop(): Promise<void>;
}

export interface ConfinedRun {
  readonly job: OwnDirectory;
  readonly access: ConfinedAccess;
  readonly env: Readonly<Record<string, string>>;
  readonly flags: readonly string[];
  /** Aborts when the run has written more than it may or only waits, or memory runs out. */
  readonly overfull: AbortSignal;
  /** Starts kluctl. */
  readonly start: StartWatched;
  jailed(command: string, args: readonly string[]): { command: string; args: string[] };
  close(): Promise<void>;
}

/** Libraries, certificates and time zones. Nothing below /proc, and none of the server's own files in /etc. */
const systemRead = [
  "/etc/ssl",
  "/etc/pki",
  "/etc/ca-certificates",
  "/etc/ld.so.cache",
  "/etc/localtime",
  "/dev/urandom",
];
const systemPrograms = ["/usr", "/lib", "/lib64", "/bin"];
const openFiles = 4_096;

export function createConfinement(deps: ConfinementDeps): Confinement {
  const { confine, demands, directories, env, limits, log } = deps;
  const own = toConfinedEnvironment(env);
  const renderers = createJailedRenderers({
    unpacked: directories.unpacked,
    workDir: deps.workDir,
    searchPath: own["PATH"] ?? "",
    env: Object.fromEntries(Object.entries(own).filter(([name]) => /^(PATH$|PYTHON|LC_|LANG|TZ)/.test(name))),
    limits,
    jail: {
      limits: {
        data: limits.previewRendererBytes,
        files: 64,
        fileSize: 0,
        cpu: limits.previewRendererSeconds,
      },
      abi: demands.abi,
      files: demands.files,
    },
    systemPython: deps.systemPython,
    warm: deps.warm,
    log,
  });
  const places = new Map<string, Promise<JailedPlace>>();
  const stopping = new AbortController();
  const idle = createIdleWatch(limits.idleMs);

  function jailFor(
    place: JailedPlace,
    binary: Binary,
    { job, reads, ports }: { job: OwnDirectory; reads: readonly string[]; ports: readonly number[] },
  ): Jail {
    const { files, network, abi } = demands;
    const trusted = ["SSL_CERT_FILE", "SSL_CERT_DIR"].flatMap((name) => own[name]?.split(":") ?? []);
    return {
      read: [...systemRead, ...trusted, ...reads],
      execute: [...systemPrograms, binary.path, ...place.programs],
      write: [job.path, "/dev/null"],
      ports,
      filter: kluctlFilter({ connects: ports.length > 0, watched: false }),
      // Without a port there is nothing that it could connect to.
      ...(ports.length > 0 && {
        watched: { filter: kluctlFilter({ watched: true }), sockets: [...place.programs, job.path] },
      }),
      limits: { data: limits.kluctlBytes, files: openFiles, fileSize: limits.writtenBytes },
      demands: { files, network, abi },
    };
  }

  async function admit(place: JailedPlace, job: OwnDirectory, reads: readonly string[]) {
    const admission = await place.admit([...reads, ...job.included]);
    return { ...admission, env: { ...own, ...place.ways.env, ...job.env, ...admission.env } };
  }

  /**
   * Runs once per kluctl binary. First kluctl renders an empty project, to unpack and compile its Python, which it
   * cannot do in a jail; unless an earlier server has left it. Then it does the same in a jail: a machine where that
   * fails is detected before the first preview, and the fork server learns the libraries from a run of ours.
   */
  async function prepare(binary: Binary): Promise<JailedPlace> {
    const job = await directories.create("towline", { bringsLogins: false });
    try {
      const [project, output] = [join(job.path, "project"), join(job.path, "rendered")];
      await mkdir(project);
      await writeFile(join(project, "deployment.yaml"), "deployments: [] # {{ 6 * 7 }}\n");
      const args = ["render", "--no-update-check", "--offline-kubernetes", `--project-dir=${project}`];
      if (await deps.unpackedBy.is(binary)) {
        try {
          return await openJailed(binary, project, args);
        } catch (error) {
          if (stopping.signal.aborted) throw error;
          log.debug({ error: (error as Error).message }, "kluctl's Python is unpacked again");
        }
      }
      const command = { command: binary.path, args: [...args, `--render-output-dir=${output}`] };
      await render({ ...command, env: { ...own, ...job.env }, cwd: project });
      const place = await openJailed(binary, project, args);
      await deps.unpackedBy.remember(binary);
      return place;
    } finally {
      await job.remove();
    }
  }

  /** Needs the unpacked Python. */
  async function openJailed(binary: Binary, project: string, args: readonly string[]): Promise<JailedPlace> {
    const place = await renderers.open(binary);
    try {
      const job = await directories.createOwn(place.unpacked);
      const admission = await admit(place, job, [project]);
      try {
        const jail = jailFor(place, binary, { job, reads: [project], ports: [] });
        const inside = [...args, `--render-output-dir=${join(job.path, "rendered")}`, ...place.ways.flags];
        await render({ ...inJail(jail, binary.path, inside), env: admission.env, cwd: job.path });
      } finally {
        admission.end();
        await job.remove();
      }
      return place;
    } catch (error) {
      place.retire();
      throw error;
    }
  }

  async function render(spec: { command: string; args: string[]; env: Record<string, string>; cwd: string }) {
    const { exitCode, stderr } = await runProcess({
      name: "kluctl render",
      ...spec,
      limits: { ...limits, timeoutMs: 60_000 },
      signal: stopping.signal,
      start: deps.start,
    });
    if (exitCode === 0) return;
    const words = stderr.trim().split("\n").slice(-3).join("; ").slice(-500);
    throw new KluctlUnavailableError(`kluctl cannot render a preview in a jail here: ${words}`);
  }

  function open(binary: Binary): Promise<JailedPlace> {
    const known = places.get(binary.file);
    if (known !== undefined) return known;
    // Retire the places of a kluctl that was replaced.
    for (const other of places.values()) other.then((place) => place.retire()).catch(() => undefined);
    places.clear();
    const opening = prepare(binary);
    places.set(binary.file, opening);
    opening.catch(() => forget(binary, opening));
    return opening;
  }

  function forget({ file }: Binary, opening: Promise<JailedPlace>): void {
    if (places.get(file) === opening) places.delete(file);
  }

  /** Opens a new place, with all of its checks, if the fork server of the known one has ended. */
  async function find(binary: Binary): Promise<JailedPlace> {
    const opening = open(binary);
    const place = await opening;
    if (place.start() !== "gone") return place;
    place.retire();
    forget(binary, opening);
    return open(binary);
  }

  const begun = new Set<string>();
  return {
    prepare(binary) {
      if (begun.has(binary.file) || !takesStandIn(binary)) return;
      begun.add(binary.file);
      open(binary).catch(() => undefined);
    },

    async begin(binary, run, signal, { offline }) {
      if (offline && !isWhole(demands)) throw new PreviewRefusedError(notIsolated);
      if (!takesStandIn(binary)) {
        const words = `kluctl ${binary.version} only uses its own renderers, which cannot be confined: use 2.25 or newer`;
        throw new KluctlUnavailableError(words);
      }
      const place = await find(binary);
      const slot = run.slot;
      if (slot === undefined) throw new Error("a confined run needs a slot");
      const opening = offline ? Promise.resolve(noAccess) : confine.open(run, slot, signal);
      const [job, access] = await both(directories.createOwn(place.unpacked), opening);
      const reads = [slot, ...(run.localOverrides ?? []).map(({ path }) => path)];
      const admission = await admit(place, job, reads);
      const start = place.start();
      deps.observe?.(start === "warm" ? "warm" : deps.warm ? "fallback" : "cold");
      const memory = watchMemory(deps.memory ?? readContainerMemory);
      const room = watchRoom(job.path, { bytes: limits.writtenBytes, files: limits.writtenFiles });
      let kluctl: Watched | undefined;
      const waiting = idle.watch({
        groups: () => [...(kluctl?.pid === undefined ? [] : [kluctl.pid]), ...admission.renderers()],
        isServed: () => access.isServing?.() ?? false,
      });
      return {
        job,
        access,
        env: { ...admission.env, ...access.env },
        flags: place.ways.flags,
        overfull: AbortSignal.any([room.signal, memory.signal, waiting.signal]),
        start: (...spec) => (kluctl = (deps.start ?? startWatched)(...spec)),
        jailed: (command, args) => inJail(jailFor(place, binary, { job, reads, ports: access.ports }), command, args),
        async close() {
          admission.end();
          room.stop();
          memory.stop();
          waiting.stop();
          await access.close();
        },
      };
    },

    async stop() {
      stopping.abort();
      await Promise.allSettled(places.values());
      await renderers.stop();
    },
  };
}

/** Evaluated for every run, because `reachesNothing` can change. */
function isWhole({ files, network, reachesNothing }: JailDemands): boolean {
  return files && (network || (reachesNothing?.() ?? false));
}

/** kluctl 2.23 and 2.24 do not. */
function takesStandIn(binary: Binary): boolean {
  return !isSince(binary, 2, 23) || isSince(binary, 2, 25);
}

/** Waits for both; if one fails, the result of the other is cleaned up. */
async function both(
  making: Promise<OwnDirectory>,
  opening: Promise<ConfinedAccess>,
): Promise<[OwnDirectory, ConfinedAccess]> {
  const [job, access] = await Promise.allSettled([making, opening]);
  if (job.status === "fulfilled" && access.status === "fulfilled") return [job.value, access.value];
  if (job.status === "fulfilled") await job.value.remove();
  if (access.status === "fulfilled") await access.value.close();
  throw (access.status === "rejected" ? access.reason : (job as PromiseRejectedResult).reason) as Error;
}
