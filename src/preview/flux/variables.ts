/** The variables of a Kustomization (`postBuild.substituteFrom`). ConfigMaps are read, Secrets never are. */
import { fieldsOf, type JsonObject } from "../../kit/json.ts";
import type { PreviewCluster } from "../../ports/preview-cluster.ts";
import { hasForeignValues, type IsOpenOwner } from "./foreign-values.ts";
import type { FluxKustomization } from "./kustomization.ts";
import type { Placeholders } from "./placeholders.ts";

export interface KnownVariables {
  readonly values: Readonly<Record<string, string>>;
  /** Whether some of them are secret and not known here. */
  readonly hasSecrets: boolean;
  /** Whether Secrets add variables, whose names are not known. */
  readonly hasUnknownNames: boolean;
}

export interface VariablesContext {
  readonly isOpenOwner: IsOpenOwner;
  readonly placeholders: Pick<Placeholders, "of">;
  readonly signal: AbortSignal;
}

/** What Flux says of a Kustomization whose variables cannot be found. */
export class VariablesError extends Error {
  override name = "VariablesError";
}

/** Variables of a ConfigMap with foreign values get placeholders. Throws VariablesError, and ApiError if the cluster cannot be read. */
export async function readVariables(
  { key: { namespace }, substituteFrom }: Pick<FluxKustomization, "key" | "substituteFrom">,
  cluster: () => Promise<Pick<PreviewCluster, "find">>,
  { isOpenOwner, placeholders, signal }: VariablesContext,
): Promise<KnownVariables> {
  const values: Record<string, string> = {};
  let hasForeign = false;
  for (const { kind, name, optional } of substituteFrom) {
    if (kind !== "ConfigMap") continue;
    const found = await (await cluster()).find(toReference(namespace, name), signal);
    const live = "live" in found ? found.live : undefined;
    if (live === undefined && optional) continue;
    if (live === undefined)
      throw new VariablesError(`substitute from 'ConfigMap/${name}' error: configmaps "${name}" not found`);
    const isForeign = hasForeignValues(live, isOpenOwner);
    if (isForeign) hasForeign = true;
    // Without line breaks, as in Flux, so that a value cannot add lines to a manifest.
    for (const [variable, value] of Object.entries(fieldsOf(live["data"])))
      values[variable] = isForeign ? placeholders.of(variable) : String(value).replaceAll("\n", "");
  }
  const hasUnknownNames = substituteFrom.some(({ kind }) => kind === "Secret");
  return { values, hasSecrets: hasForeign || hasUnknownNames, hasUnknownNames };
}

/** `used`: the variables in the objects. Those that only a Secret can have get placeholders. */
export function withSecretNames(
  { values, hasUnknownNames }: KnownVariables,
  { substitute }: Pick<FluxKustomization, "substitute">,
  used: ReadonlySet<string>,
  placeholders: Pick<Placeholders, "of">,
): Readonly<Record<string, string>> {
  if (!hasUnknownNames) return values;
  const unknown = [...used].filter((name) => isFromSecret(name, values, substitute));
  // Flux substitutes nothing if there are no variables at all; a Secret nearly always has one.
  return { _: "", ...values, ...Object.fromEntries(unknown.map((name) => [name, placeholders.of(name)])) };
}

/** Whether only a Secret can have the variable. */
function isFromSecret(
  name: string,
  values: KnownVariables["values"],
  substitute: FluxKustomization["substitute"],
): boolean {
  return !Object.hasOwn(values, name) && !substitute.has(name);
}

function toReference(namespace: string, name: string): JsonObject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace, name } };
}
