/** Finds out at the start whether Flux's Kustomizations can be rendered on this machine. */
import type { Config } from "../config.ts";
import type { Logger } from "../log.ts";
import type { FluxRenderer } from "../ports.ts";

const longestMs = 10_000;

/**
 * Why none is rendered, as text for operators; `undefined` if they are, or are not meant to be. Each preview tries again.
 */
export async function findFluxRefusal(
  { flux, preview, dataDir }: Pick<Config, "flux" | "preview" | "dataDir">,
  renderer: FluxRenderer,
  log: Logger,
): Promise<string | undefined> {
  if (!flux.previews || !preview.enabled) return undefined;
  try {
    await renderer.render({ root: dataDir, kustomizations: [] }, AbortSignal.timeout(longestMs));
    log.info("pull requests show what they change in what Flux applies");
    return undefined;
  } catch (error) {
    const { message } = error as Error;
    log.error({ error: message }, "pull requests do not show what they change in what Flux applies");
    return message;
  }
}
