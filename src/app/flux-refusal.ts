/** Finds out at the start whether Flux's Kustomizations can be rendered on this machine. */
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../config.ts";
import type { Logger } from "../log.ts";
import type { FluxRenderer } from "../ports.ts";

const longestMs = 10_000;

/**
 * Why none is rendered, as text for operators; `undefined` if they are, or are not meant to be. Each preview tries again.
 */
export async function findFluxRefusal(
  { flux, preview, dataDir }: Pick<Config, "flux" | "preview" | "dataDir">,
  renderer: Pick<FluxRenderer, "render">,
  log: Logger,
): Promise<string | undefined> {
  if (!flux.previews || !preview.enabled) return undefined;
  let root: string | undefined;
  try {
    // The program looks at all files below its root, and `dataDir` has those of all repositories.
    root = await mkdtemp(join(dataDir, "flux-"));
    await renderer.render({ root, kustomizations: [] }, AbortSignal.timeout(longestMs));
    log.info("pull requests show what they change in what Flux applies");
    return undefined;
  } catch (error) {
    const { message } = error as Error;
    log.error({ error: message }, "pull requests do not show what they change in what Flux applies");
    return message;
  } finally {
    if (root !== undefined) await rm(root, { recursive: true, force: true });
  }
}
