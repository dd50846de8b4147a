/** The values that a HelmRelease names in `valuesFrom`. ConfigMaps are read, Secrets never are. */
import { field, fieldsOf, type JsonObject } from "../../../kit/json.ts";
import { keyText } from "../../../model.ts";
import type { PreviewCluster } from "../../../ports/preview-cluster.ts";
import type { ReleaseValues } from "../../../ports/flux-renderer.ts";
import { hasForeignValues } from "../foreign-values.ts";
import type { VariablesContext } from "../variables.ts";
import type { RenderedConfigMaps } from "./pair-releases.ts";
import type { FluxRelease } from "./release.ts";

export interface ReadValues {
  readonly objects: readonly ReleaseValues[];
  /** Whether some of them are secret and not known here. */
  readonly hasSecrets: boolean;
  /** Why they cannot be read. */
  readonly obstacle?: string | undefined;
}

/**
 * A ConfigMap that the commit renders has the values that it has there; the others have those of the cluster. Throws
 * ApiError if the cluster cannot be read.
 */
export async function readValues(
  { key: { namespace }, valuesFrom }: Pick<FluxRelease, "key" | "valuesFrom">,
  rendered: RenderedConfigMaps,
  cluster: () => Promise<Pick<PreviewCluster, "find">>,
  { isOpenOwner, placeholders, signal }: VariablesContext,
): Promise<ReadValues> {
  const objects: ReleaseValues[] = [];
  const secrets = new Map<string, Record<string, string>>();
  let hasSecrets = false;
  for (const { kind, name, key } of valuesFrom) {
    if (kind === "Secret") {
      hasSecrets = true;
      const data = secrets.get(name) ?? {};
      data[key] = placeholders.of(`${name}.${key}`);
      secrets.set(name, data);
    }
    if (kind !== "ConfigMap" || objects.some((one) => one.name === name)) continue;
    const own = rendered.get(keyText({ namespace, name }));
    if (own?.isEncrypted)
      return { objects, hasSecrets, obstacle: `the values in the ConfigMap ${name} are encrypted, and previews do not decrypt them` }; // prettier-ignore
    if (own?.isSecret) hasSecrets = true;
    const object = own?.object ?? (await findLive(namespace, name, cluster, signal));
    if (own === undefined && object !== undefined && hasForeignValues(object, isOpenOwner))
      return { objects, hasSecrets, obstacle: `the ConfigMap ${name} with values for it belongs to something else in the cluster, which may have made them of secrets` }; // prettier-ignore
    if (object !== undefined) objects.push({ kind, name, data: textsOf(field(object, "data")) });
  }
  for (const [name, data] of secrets) objects.push({ kind: "Secret", name, data });
  return { objects, hasSecrets };
}

async function findLive(
  namespace: string,
  name: string,
  cluster: () => Promise<Pick<PreviewCluster, "find">>,
  signal: AbortSignal,
): Promise<JsonObject | undefined> {
  const found = await (
    await cluster()
  ).find({ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace, name } }, signal);
  return "live" in found ? found.live : undefined;
}

function textsOf(data: unknown): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(fieldsOf(data)).map(([key, value]) => [key, String(value)]));
}
