/** The real program that renders Flux's Kustomizations, in its jail. */
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { findTools } from "../../dev/tools.ts";
import { openFluxRenderer } from "../../src/app/flux-renderer.ts";
import type { Isolation } from "../../src/app/isolation.ts";
import type { FluxRendered, FluxRenderer, FluxToRender } from "../../src/ports.ts";
import { startStarter } from "../../src/starter/starter.ts";
import { useTempDir } from "./world.ts";

/** Everything that Linux 6.7 or newer provides. */
const complete: Isolation = {
  mode: "required",
  provided: { files: "", processes: "", credentials: "", network: "" },
  missing: {},
};

export interface RendererOptions {
  readonly program?: string;
  readonly isolation?: Isolation;
  readonly atRunner?: boolean;
}

export async function useFluxRenderer(options: RendererOptions = {}): Promise<FluxRenderer> {
  const { program = await findRenderer(), isolation = complete, atRunner = false } = options;
  const starter = startStarter({ home: join(await useTempDir(), "home"), env: process.env });
  onTestFinished(() => starter.stop());
  return openFluxRenderer({
    config: { flux: { trigger: false, statuses: false, previews: false, renderer: program } },
    isolation,
    atRunner,
    starter,
    env: {},
  });
}

export async function findRenderer(): Promise<string> {
  const say = (line: string) => void process.stderr.write(`${line}\n`);
  return (await findTools(["towline-flux"], { say }))["towline-flux"];
}

/** `spec` besides what the API server demands. */
export function toRender(
  name: string,
  spec: Readonly<Record<string, unknown>> = {},
  variables: Readonly<Record<string, string>> = {},
): FluxToRender {
  const resource = {
    ...{ apiVersion: "kustomize.toolkit.fluxcd.io/v1", kind: "Kustomization" },
    metadata: { name, namespace: "flux-system" },
    spec: { interval: "1h", prune: true, sourceRef: { kind: "GitRepository", name: "shop" }, ...spec },
  };
  return { resource, variables };
}

/** Throws the error of a Kustomization that was not rendered. */
export function objectsOf(rendered: FluxRendered | undefined): readonly Readonly<Record<string, unknown>>[] {
  if (rendered === undefined || "error" in rendered) throw new Error(rendered?.error ?? "nothing was rendered");
  return rendered.objects;
}

export function errorOf(rendered: FluxRendered | undefined): string {
  return rendered !== undefined && "error" in rendered ? rendered.error : "rendered";
}
