/**
 * Renders the Kustomizations of one commit, and those among the rendered objects with the spec that they have there: what
 * Flux would apply once it has applied everything.
 */
import { isDeepStrictEqual } from "node:util";
import { ApiError, PreviewRefusedError } from "../../errors.ts";
import { field, type JsonObject } from "../../kit/json.ts";
import { keyText } from "../../model.ts";
import type { FluxRendered, FluxRenderer } from "../../ports/flux-renderer.ts";
import type { PreviewCluster } from "../../ports/preview-cluster.ts";
import type { IsOpenOwner } from "./foreign-values.ts";
import { type FluxKustomization, nameIfKustomization, readKustomization } from "./kustomization.ts";
import { type Placeholders, variablesIn } from "./placeholders.ts";
import { idsWithSecrets } from "./secret-ids.ts";
import { type KnownVariables, readVariables, VariablesError, withSecretNames } from "./variables.ts";

export interface RenderedKustomization {
  readonly kustomization: FluxKustomization;
  /**
   * The name of the first one found that contains it; absent: it is taken from the cluster. So parents always lead to one in
   * the cluster, also if Kustomizations contain each other.
   */
  readonly parent?: string | undefined;
  readonly depth: number;
  readonly rendered: FluxRendered;
  /** Ids of the objects with values that are secret and not known here: encrypted, or of variables from Secrets. */
  readonly withSecrets: ReadonlySet<string>;
}

export interface RenderedTree {
  /** By name. */
  readonly all: ReadonlyMap<string, RenderedKustomization>;
  /** Of all of them, and of what was rendered again. */
  readonly withSecrets: ReadonlySet<string>;
  /** Those that are not rendered, with reasons. */
  readonly unshown: readonly { readonly deployment: string; readonly reason: string }[];
  /** Those of them that are too many or too deep, so that nobody knows what the commit does to them. */
  readonly tooMuch: readonly FluxKustomization[];
  /** Those that are contained, but not with files of the repository, or not readably: by name, with reasons. */
  readonly elsewhere: ReadonlyMap<string, string>;
  /** Whether an operator may change that: the cluster refuses what has to be read. */
  readonly mendable: boolean;
}

export interface TreeInput {
  /** The checkout of the commit. */
  readonly root: string;
  readonly roots: readonly FluxKustomization[];
  /** The GitRepositories that the pull request concerns, by name: the `spec.ignore` of each. */
  readonly sources: ReadonlyMap<string, { readonly ignore: string | undefined }>;
  /** Whether a GitRepository is in the cluster. */
  readonly isSourceKnown: (key: FluxKustomization["key"]) => boolean;
  readonly renderer: FluxRenderer;
  /** The cluster as the account of previews sees it. `parents`: the nearest first. */
  readonly cluster: (of: FluxKustomization, parents: readonly string[]) => Promise<PreviewCluster>;
  readonly isOpenOwner: IsOpenOwner;
  readonly placeholders: Placeholders;
  /** See CompareDeps. */
  readonly limit: <T>(work: () => Promise<T>, options: { signal: AbortSignal }) => Promise<T>;
  readonly signal: AbortSignal;
}

export const deepest = 8;
/** Of one commit, each time that one is rendered again counted. */
const mostRendered = 200;
/** Of one commit: what is beyond is kept in memory as well, but nothing that it contains is rendered. */
const mostObjects = 50_000;
const mostBytes = 64 * 1024 ** 2;

interface Wanted {
  readonly kustomization: FluxKustomization;
  readonly parent?: string | undefined;
  readonly depth: number;
}

/** Rejects if nothing can be rendered, or the cluster does not answer. */
export async function renderTree(input: TreeInput): Promise<RenderedTree> {
  const all = new Map<string, RenderedKustomization>();
  const unshown = new Map<string, string>();
  const elsewhere = new Map<string, string>();
  const withSecrets = new Set<string>();
  const tooMuch = new Map<string, FluxKustomization>();
  let [left, mendable] = [mostRendered, false];
  let [objects, bytes] = [0, 0];
  let level: readonly Wanted[] = input.roots.map((kustomization) => ({ kustomization, depth: 0 }));
  while (level.length > 0) {
    const [rendered, beyond] = [level.slice(0, left), level.slice(left)];
    const isLarge = objects > mostObjects || bytes > mostBytes;
    const why = isLarge
      ? "the Kustomizations that contain it render too many objects"
      : `more than ${mostRendered} Kustomizations would have to be rendered`;
    for (const { kustomization } of beyond) {
      unshown.set(kustomization.name, why);
      tooMuch.set(kustomization.name, kustomization);
    }
    left -= rendered.length;
    const { made, refused } = await renderLevel(rendered, (parent) => ancestors(parent, all), input);
    for (const { kustomization, refusal } of refused) unshown.set(kustomization.name, refusal);
    if (refused.length > 0) mendable = true;
    for (const one of made) {
      const first = all.get(one.kustomization.name);
      all.set(one.kustomization.name, first === undefined ? one : { ...one, parent: first.parent });
      for (const id of one.withSecrets) withSecrets.add(id);
    }
    for (const { rendered: one } of made) {
      if ("error" in one) continue;
      objects += one.objects.length;
      bytes += one.objects.reduce((sum, object) => sum + JSON.stringify(object).length, 0);
    }
    if (objects > mostObjects || bytes > mostBytes) left = 0;
    level = made.flatMap((one) => childrenOf(one, { all, unshown, tooMuch, elsewhere, input }));
  }
  return {
    all,
    withSecrets,
    elsewhere,
    mendable,
    unshown: [...unshown].map(([deployment, reason]) => ({ deployment, reason })),
    tooMuch: [...tooMuch.values()],
  };
}

interface Known {
  readonly all: ReadonlyMap<string, RenderedKustomization>;
  readonly unshown: Map<string, string>;
  readonly tooMuch: Map<string, FluxKustomization>;
  readonly elsewhere: Map<string, string>;
  readonly input: TreeInput;
}

/** Those that are new, or have another spec than the one that was rendered. */
function childrenOf({ kustomization: parent, depth, rendered }: RenderedKustomization, known: Known): Wanted[] {
  const { all, unshown, tooMuch, elsewhere, input } = known;
  if ("error" in rendered) return [];
  return rendered.objects.flatMap((object): Wanted[] => {
    const child = readKustomization(object);
    if (child === undefined) {
      const name = nameIfKustomization(object);
      if (name !== undefined) elsewhere.set(name, "its spec cannot be read");
      return [];
    }
    if (child.source === undefined) {
      elsewhere.set(child.name, "it has another source");
      return [];
    }
    const source = keyText(child.source);
    if (!input.sources.has(source)) {
      // One that follows another repository or branch is not part of the pull request.
      if (!input.isSourceKnown(child.source))
        unshown.set(child.name, `its GitRepository ${source} is not in the cluster`);
      else elsewhere.set(child.name, "it has another source");
      return [];
    }
    const earlier = all.get(child.name);
    if (earlier !== undefined && isDeepStrictEqual(specOf(earlier.kustomization), specOf(child))) return [];
    if (depth === deepest) {
      unshown.set(child.name, `it is nested more than ${deepest} deep`);
      tooMuch.set(child.name, child);
      return [];
    }
    return [{ kustomization: child, parent: earlier === undefined ? parent.name : earlier.parent, depth: depth + 1 }];
  });
}

function specOf({ resource }: FluxKustomization): unknown {
  return resource["spec"];
}

/** Those that contain it, beginning with the named one: the nearest first. */
export function ancestors(name: string | undefined, all: ReadonlyMap<string, RenderedKustomization>): string[] {
  const found: string[] = [];
  for (let at = name; at !== undefined && !found.includes(at); at = all.get(at)?.parent) found.push(at);
  return found;
}

type Prepared = Wanted & { readonly variables: KnownVariables | { readonly error: string } };
type Refused = Wanted & { readonly refusal: string };

async function renderLevel(
  level: readonly Wanted[],
  parentsOf: (parent: string | undefined) => readonly string[],
  input: TreeInput,
): Promise<{ readonly made: readonly RenderedKustomization[]; readonly refused: readonly Refused[] }> {
  const prepared = await Promise.all(
    level.map(async (one): Promise<Prepared | Refused> => {
      const { kustomization, parent } = one;
      const cluster = () => input.cluster(kustomization, parentsOf(parent));
      try {
        return { ...one, variables: await readVariables(kustomization, cluster, input) };
      } catch (error) {
        if (error instanceof VariablesError) return { ...one, variables: { error: error.message } };
        if (!isRefusal(error)) throw error;
        return { ...one, refusal: `its variables cannot be read: ${error.message}` };
      }
    }),
  );
  const ready = prepared.filter((one) => "variables" in one);
  const groups = Map.groupBy(ready, ({ kustomization: { source } }) =>
    source === undefined ? undefined : input.sources.get(keyText(source))?.ignore,
  );
  const made = await Promise.all([...groups].map(([ignore, members]) => renderGroup(members, ignore, input)));
  return { made: made.flat(), refused: prepared.filter((one) => "refusal" in one) };
}

/** Whether a retry would end alike, and other Kustomizations are not concerned. */
function isRefusal(error: unknown): error is Error {
  if (error instanceof PreviewRefusedError) return true;
  const isTransient = (status: number) => status === 408 || status === 429;
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && !isTransient(error.status);
}

/** One process renders all of them, and one more those with variables from Secrets, to find the names of these variables. */
async function renderGroup(
  members: readonly Prepared[],
  ignore: string | undefined,
  { root, renderer, placeholders, limit, signal }: TreeInput,
): Promise<RenderedKustomization[]> {
  const render = async (all: readonly { resource: JsonObject; variables: Readonly<Record<string, string>> }[]) => {
    if (all.length === 0) return [];
    const made = await limit(() => renderer.render({ root, ignore, kustomizations: all }, signal), { signal });
    if (made.length !== all.length) throw new Error("the renderer of Kustomizations did not answer for all of them");
    return made;
  };
  const ready = members.flatMap((one) => ("error" in one.variables ? [] : [{ ...one, variables: one.variables }]));
  const secretive = ready.filter(({ variables }) => variables.hasSecrets);
  const plain = await render(
    secretive.map(({ kustomization }) => ({ resource: withoutSubstitution(kustomization.resource), variables: {} })),
  );
  const unsubstituted = new Map(secretive.map((one, at) => [one.kustomization, plain[at]]));
  const rendered = await render(
    ready.map(({ kustomization, variables }) => {
      const before = unsubstituted.get(kustomization);
      if (before === undefined) return { resource: kustomization.resource, variables: variables.values };
      const used = "error" in before ? new Set<string>() : variablesIn(before.objects);
      return {
        resource: kustomization.resource,
        variables: withSecretNames(variables, kustomization, used, placeholders),
      };
    }),
  );
  const results = new Map(ready.map((one, at) => [one.kustomization, rendered[at]]));
  return members.map(({ kustomization, parent, depth, variables }) => {
    const result = "error" in variables ? variables : results.get(kustomization);
    if (result === undefined) throw new Error("the renderer of Kustomizations did not answer for all of them");
    // A Secret may have a variable of a ConfigMap as well, now or when Flux applied it.
    const isSecret = (name: string) => !kustomization.substitute.has(name);
    const withSecrets = idsWithSecrets(unsubstituted.get(kustomization), result, { isSecret, placeholders });
    return { kustomization, parent, depth, rendered: result, withSecrets };
  });
}

function withoutSubstitution(resource: JsonObject): JsonObject {
  const spec = field(resource, "spec") as JsonObject;
  const { postBuild: _, ...rest } = spec;
  return { ...resource, spec: rest };
}
