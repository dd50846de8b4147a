/** Renders Flux's Kustomizations and charts: starts the program `towline-flux` in a jail and reads its answer. */
import { FluxRenderError, KilledError, FluxRendererUnavailableError, PreviewRefusedError } from "../../errors.ts";
import { kluctlFilter } from "../../jail/filter.ts";
import { type Demands, inJail, type Jail, notJailed } from "../../jail/jail.ts";
import { findProgram } from "../../kit/find-program.ts";
import type { FluxRenderer, FluxRenderInput, ReleaseRenderInput } from "../../ports.ts";
import { parseAnswer, parseReleases } from "./answer.ts";
import { explainExit, findRendering } from "./explain-exit.ts";

export interface FluxRendererDeps {
  /** A path, or a name to look up on PATH. */
  readonly program: string;
  readonly searchPath: string;
  /** What the kernel has to provide; `undefined`: the program is not confined. */
  readonly demands: Demands | undefined;
  /** Why nothing is rendered here; asked before each run. */
  readonly refusal: () => string | undefined;
  readonly run: RunProgram;
  readonly limits?: FluxRendererLimits | undefined;
}

export interface FluxRendererLimits {
  readonly timeoutMs: number;
  /** Private memory of the process. */
  readonly memoryBytes: number;
  /** What it may print. The program itself stops adding objects at half of it. */
  readonly outputBytes: number;
}

/** Runs a program to its end, and leaves none of its processes behind. Rejects with KilledError if a signal ended it. */
export type RunProgram = (run: ProgramRun, signal: AbortSignal) => Promise<ProgramEnd>;

export interface ProgramRun extends Pick<FluxRendererLimits, "timeoutMs" | "outputBytes"> {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly input: string;
  /** Called with each line of stderr. */
  readonly onLine: (line: string) => void;
}

export interface ProgramEnd {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** 200 Kustomizations take a few seconds and 200 MB. */
const defaultLimits: FluxRendererLimits = {
  timeoutMs: 60_000,
  memoryBytes: 1024 ** 3,
  outputBytes: 64 * 1024 ** 2,
};

/** Twice the time limit: its garbage collector uses a second CPU. */
const cpusAtMost = 2;
const openFiles = 64;

export function createFluxRenderer(deps: FluxRendererDeps): FluxRenderer {
  const { limits = defaultLimits } = deps;

  async function find(): Promise<string> {
    const path = await findProgram(deps.program, deps.searchPath);
    if (path !== undefined) return path;
    const place = deps.program.includes("/") ? `no executable file at ${deps.program}` : `no ${deps.program} on PATH`;
    throw new FluxRendererUnavailableError(
      `Flux's Kustomizations cannot be rendered: ${place} (set TOWLINE_FLUX_RENDERER to its path)`,
    );
  }

  /** Returns what the program printed. */
  async function start(root: string, request: unknown, signal: AbortSignal): Promise<string> {
    const refusal = deps.refusal();
    if (refusal !== undefined) throw new PreviewRefusedError(refusal);
    const program = await find();
    const { demands } = deps;
    const started = demands ? inJail(toJail(program, root, demands, limits), program, []) : { command: program, args: [] }; // prettier-ignore
    let rendering: string | undefined;
    const onLine = (line: string) => (rendering = findRendering(line) ?? rendering);
    try {
      const { timeoutMs, outputBytes } = limits;
      const ended = await deps.run(
        {
          ...{ name: "towline-flux", ...started, env: {}, cwd: "/", input: JSON.stringify(request) },
          ...{ timeoutMs, outputBytes, onLine },
        },
        signal,
      );
      if (ended.exitCode === notJailed) throw new PreviewRefusedError(`Flux's Kustomizations are not rendered here: ${ended.stderr.trim()}`); // prettier-ignore
      if (ended.exitCode !== 0) throw new FluxRenderError(explainExit(ended, limits));
      return ended.stdout;
    } catch (error) {
      throw signal.aborted || rendering === undefined ? error : withPlace(error as Error, rendering);
    }
  }

  return {
    async render(input, signal) {
      const printed = await start(input.root, toRequest(input), signal);
      return parseAnswer(printed, { count: input.kustomizations.length, outputBytes: limits.outputBytes });
    },
    async renderReleases(input, signal) {
      const printed = await start(input.root, toReleaseRequest(input), signal);
      return parseReleases(printed, { count: input.releases.length, outputBytes: limits.outputBytes });
    },
  };
}

/** It may read the checkout and execute itself, and nothing else: it is linked statically and writes no files. */
function toJail(program: string, root: string, demands: Demands, limits: FluxRendererLimits): Jail {
  return {
    read: [root],
    execute: [program],
    write: [],
    ports: [],
    filter: kluctlFilter({ connects: false, watched: false }),
    limits: {
      data: limits.memoryBytes,
      files: openFiles,
      fileSize: 0,
      cpu: (limits.timeoutMs / 1_000) * cpusAtMost,
    },
    demands,
    environment: ["TOWLINE_FLUX_"], // there is none: the shell before it adds variables of its own
  };
}

/** Only what the program knows: it refuses other fields. */
function toRequest({ root, ignore, kustomizations }: FluxRenderInput): FluxRenderInput {
  return {
    root,
    ...(ignore !== undefined && { ignore }),
    kustomizations: kustomizations.map(({ resource, variables }) => ({ resource, variables })),
  };
}

function toReleaseRequest({ root, ignore, releases }: ReleaseRenderInput) {
  return { root, ...(ignore !== undefined && { ignore }), kustomizations: [], releases: releases.map(toReleaseItem) };
}

function toReleaseItem(release: ReleaseRenderInput["releases"][number]) {
  const { resource, objects, isUpgrade, versionMetadata, capabilities, onlyFiles } = release;
  return { resource, objects, isUpgrade, versionMetadata, ...capabilities, onlyFiles };
}

/** Keeps the class of the error, by which callers decide. */
function withPlace(error: Error, rendering: string): Error {
  error.message += ` (while rendering ${rendering})`;
  if (error instanceof FluxRenderError || error instanceof KilledError) error.rendering = rendering;
  return error;
}
