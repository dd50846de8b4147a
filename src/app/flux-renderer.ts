/** Connects the program that renders Flux's Kustomizations: where it is, how it is confined, and who starts it. */
import type { Config } from "../config.ts";
import { createFluxRenderer, type RunProgram } from "../flux/rendering/renderer.ts";
import { runProcess } from "../kluctl/process.ts";
import type { FluxRenderer } from "../ports.ts";
import type { Starter } from "../starter/starter.ts";
import { type Isolation, refusalOf, toDemands } from "./isolation.ts";

export interface FluxRendererParts {
  readonly config: Pick<Config, "flux">;
  /** `undefined`: previews are not confined. */
  readonly isolation: Isolation | undefined;
  /** Whether a preview runner renders previews. */
  readonly atRunner: boolean;
  readonly starter: Pick<Starter, "startWatched">;
  readonly env: NodeJS.ProcessEnv;
}

const toServerOnly =
  "Flux's Kustomizations are not rendered here: previews are rendered by a preview runner, which renders only kluctl's projects";

export function openFluxRenderer({ config, isolation, atRunner, starter, env }: FluxRendererParts): FluxRenderer {
  return createFluxRenderer({
    program: config.flux.renderer ?? "towline-flux",
    searchPath: env["PATH"] ?? "",
    demands: isolation && toDemands(isolation),
    refusal: () => (atRunner ? toServerOnly : isolation && refusalOf(isolation)),
    run: runBy(starter),
  });
}

/** How long the watchdog waits for a sign of life of this server, in milliseconds. */
const silenceMs = 60_000;

function runBy({ startWatched }: Pick<Starter, "startWatched">): RunProgram {
  return ({ timeoutMs, outputBytes, ...program }, signal) =>
    runProcess({
      ...program,
      limits: { timeoutMs, graceMs: 2_000, silenceMs, keptBytes: outputBytes, lineLength: 1_000, lines: 10_000 },
      signal,
      start: startWatched,
    });
}
