/** Which rendered objects have values that are secret and not known here. Pure. */
import type { JsonObject } from "../../kit/json.ts";
import type { FluxRendered } from "../../ports/flux-renderer.ts";
import { isEncrypted } from "./ciphertext.ts";
import { idOf } from "./manifests.ts";
import { type Placeholders, variablesIn } from "./placeholders.ts";

interface Known {
  /** Whether a Secret may have the variable. */
  readonly isSecret: (variable: string) => boolean;
  readonly placeholders: Pick<Placeholders, "isIn">;
}

/** `before`: the same without substitution; absent if no variable comes from a Secret. */
export function idsWithSecrets(
  before: FluxRendered | undefined,
  after: FluxRendered,
  { isSecret, placeholders }: Known,
): ReadonlySet<string> {
  if ("error" in after) return new Set();
  const isHidden = (object: JsonObject) => isEncrypted(object) || placeholders.isIn(object);
  const affected = before === undefined ? [] : idsWithVariables(before, after, isSecret);
  return new Set([...affected, ...idsOf(after.objects.filter(isHidden))]);
}

/** Substitution may change the number, the order and the names of objects, and may shorten a value. In doubt, it is all of them. */
function idsWithVariables(
  before: FluxRendered,
  after: Extract<FluxRendered, { readonly objects: unknown }>,
  isSecret: (variable: string) => boolean,
): readonly string[] {
  const all = idsOf(after.objects);
  if ("error" in before) return all;
  const original = new Map(before.objects.flatMap((object) => idsOf([object]).map((id) => [id, object] as const)));
  const isSame = original.size === all.length && all.every((id) => original.has(id));
  return isSame ? all.filter((id) => [...variablesIn([original.get(id) ?? {}])].some(isSecret)) : all;
}

function idsOf(objects: readonly JsonObject[]): readonly string[] {
  return objects.flatMap((object) => idOf(object) ?? []);
}
