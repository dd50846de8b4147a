/** Selects the deployments that a command applies to: by name, by label, or all. */
import { keyText } from "../model.ts";
import type { FoundDeployment } from "./cluster.ts";

export interface Selection {
  /** `name` or `namespace/name`. */
  readonly names: readonly string[];
  readonly selector?: string | undefined;
  /** Empty: all. */
  readonly namespaces: readonly string[];
}

/**
 * Throws if a name matches no deployment or several.
 *
 * @param list lists the deployments of the given namespaces, or of all
 */
export async function selectDeployments(
  { names, selector, namespaces }: Selection,
  list: (namespaces: readonly string[], selector: string | undefined) => Promise<readonly FoundDeployment[]>,
): Promise<readonly FoundDeployment[]> {
  // With namespaces in the names, no permission to list all namespaces is needed.
  const named = names.map((name) => name.split("/"));
  const all = named.length > 0 && named.every((parts) => parts.length === 2);
  const places = all ? [...new Set(named.map(([namespace = ""]) => namespace))] : namespaces;
  const found = await list(places, selector);
  if (names.length === 0) return found;
  return [...new Set(names.map((name) => findOne(name, found, places)))];
}

function findOne(name: string, found: readonly FoundDeployment[], places: readonly string[]): FoundDeployment {
  const fitting = found.filter(({ deployment: { key } }) => (name.includes("/") ? keyText(key) : key.name) === name);
  const [one, ...others] = fitting;
  if (one !== undefined && others.length === 0) return one;
  if (one !== undefined) {
    const all = fitting.map(({ deployment }) => keyText(deployment.key)).join(", ");
    throw new Error(`several KluctlDeployments are named ${name}: ${all}. Use namespace/name or -n`);
  }
  const where = places.length > 0 ? ` in ${places.join(", ")}` : "";
  const there = found.slice(0, 10).map(({ deployment }) => keyText(deployment.key));
  throw new Error(`no KluctlDeployment ${name}${where}; found: ${there.join(", ") || "none"}`);
}
