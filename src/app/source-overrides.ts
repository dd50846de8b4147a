/** The service through which `kluctl gitops` provides local files of its user, if enabled. */
import { join } from "node:path";
import type { Config } from "../config.ts";
import type { KubeClient } from "../kube/client.ts";
import { loadKeyMaterial } from "../kube/key-material.ts";
import type { Logger } from "../log.ts";
import { createKeyMaterial, problemOf } from "../overrides/key-material.ts";
import { type SourceOverrides, startSourceOverrides } from "../overrides/source-overrides.ts";
import { explainAddress } from "./listener.ts";

/** Throws if the address is in use or unavailable. */
export async function openSourceOverrides(
  config: Pick<Config, "sourceOverride" | "controllerName" | "controllerNamespace" | "dataDir">,
  { client, log }: { readonly client: KubeClient; readonly log: Logger },
): Promise<SourceOverrides | undefined> {
  const { bindAddress } = config.sourceOverride;
  if (bindAddress === undefined) return undefined;
  try {
    return await startSourceOverrides({
      ...bindAddress,
      loadMaterial: () =>
        loadKeyMaterial({
          client,
          namespace: config.controllerNamespace,
          fieldManager: config.controllerName,
          make: () => createKeyMaterial(new Date()),
          problemOf: (material) => problemOf(material, new Date()),
          log,
        }),
      workDir: join(config.dataDir, "overrides"),
      log,
    });
  } catch (error) {
    const variable = "--source-override-bind-address";
    throw new Error(explainAddress(error as Error, { ...bindAddress, purpose: "source overrides", variable }), {
      cause: error,
    });
  }
}
