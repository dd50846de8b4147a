/** Finds the Kustomizations in the cluster that apply the base branch of a pull request. */
import { createLimit } from "../../kit/limit.ts";
import { z } from "zod";
import { follows } from "../../flux/match-sources.ts";
import {
  annotation,
  type FluxDeployment,
  type FluxSource,
  isSwitchedOff,
  type Key,
  keyText,
  type PullRequest,
  type RepoId,
} from "../../model.ts";
import type { Ignored } from "../../model/receipt.ts";
import type { FluxDeployments, FluxSources } from "../../ports.ts";
import { type FluxKustomization, kustomizationName, readKustomization } from "./kustomization.ts";

export interface FluxCandidates {
  /** The GitRepositories that follow the base branch. */
  readonly sources: readonly FluxSource[];
  /** The Kustomizations that apply them. */
  readonly kustomizations: readonly Pick<FluxDeployment, "key" | "suspended" | "annotations">[];
}

/** From the watch's cache; no I/O. */
export function findCandidates(
  { baseBranch }: Pick<PullRequest, "baseBranch">,
  repos: ReadonlySet<RepoId>,
  {
    sources,
    deployments,
  }: { readonly sources: Pick<FluxSources, "following">; readonly deployments: Pick<FluxDeployments, "all"> },
): FluxCandidates {
  const followed = [...repos].flatMap((repo) => sources.following(repo));
  const into = followed.filter((source) => follows(source, `refs/heads/${baseBranch}`));
  const names = new Set(into.map(({ key }) => keyText(key)));
  const kustomizations = deployments
    .all()
    .filter(({ kind, source }) => kind === "Kustomization" && source !== undefined && names.has(keyText(source)));
  const used = new Set(kustomizations.map(({ source }) => source && keyText(source)));
  return { sources: into.filter(({ key }) => used.has(keyText(key))), kustomizations };
}

export interface ReadSource {
  readonly ignore: string | undefined;
  readonly suspended: boolean;
}

export interface ReadCandidates {
  /** By name. */
  readonly sources: ReadonlyMap<string, ReadSource>;
  readonly kustomizations: readonly FluxKustomization[];
  readonly ignored: readonly Ignored[];
  /** What cannot be rendered, with reasons. */
  readonly unshown: readonly Ignored[];
}

const GitRepository = z.object({
  spec: z.object({
    ignore: z.string().nullish(),
    suspend: z.boolean().nullish(),
    include: z.array(z.unknown()).nullish(),
    recurseSubmodules: z.boolean().nullish(),
    sparseCheckout: z.array(z.unknown()).nullish(),
  }),
});

const readAtOnce = 8;

/** Reads them from the API server: what the watch has of them is not enough. Throws ApiError. */
export async function readCandidates(
  { sources, kustomizations }: FluxCandidates,
  ports: {
    readonly sources: Pick<FluxSources, "resource">;
    readonly deployments: Pick<FluxDeployments, "kustomization">;
  },
  signal: AbortSignal,
): Promise<ReadCandidates> {
  const limit = createLimit(readAtOnce);
  const usable = new Map<string, ReadSource>();
  const unusable = new Map<string, string>();
  await Promise.all(
    sources.map(({ key }) =>
      limit.run(
        async () => {
          const read = readSource(await ports.sources.resource(key, signal));
          if (typeof read === "string") unusable.set(keyText(key), read);
          else if (read !== undefined) usable.set(keyText(key), read);
        },
        { signal },
      ),
    ),
  );
  const resources = await Promise.all(
    kustomizations.map(({ key }) => limit.run(() => ports.deployments.kustomization(key, signal), { signal })),
  );
  const ignored: Ignored[] = [];
  const unshown: Ignored[] = [];
  const found = resources.flatMap((resource, at): FluxKustomization[] => {
    if (resource === undefined) return []; // deleted in the meantime
    const read = readKustomization(resource);
    const key = kustomizations[at]?.key;
    if (read === undefined && key !== undefined)
      unshown.push({ deployment: kustomizationName(key), reason: "its spec cannot be read" });
    if (read?.source === undefined) return [];
    const source = keyText(read.source);
    const reason = reasonToIgnore(read);
    const problem = unusable.get(source);
    if (reason !== undefined) ignored.push({ deployment: read.name, reason });
    else if (problem !== undefined)
      unshown.push({ deployment: read.name, reason: `GitRepository ${source} ${problem}` });
    // Meanwhile, it may have got another source.
    else if (usable.has(source)) return [read];
    return [];
  });
  return { sources: usable, kustomizations: found, ignored, unshown };
}

function reasonToIgnore({ annotations, isDeleted }: FluxKustomization): string | undefined {
  if (isSwitchedOff({ annotations }, annotation.preview)) return "previews are disabled by annotation";
  return isDeleted ? "is being deleted" : undefined;
}

/** A text says why its artifact is another one than the repository's files. */
function readSource(resource: unknown): ReadSource | string | undefined {
  const { data } = GitRepository.safeParse(resource);
  if (data === undefined) return undefined;
  const { ignore, suspend, include, recurseSubmodules, sparseCheckout } = data.spec;
  if (include?.length) return "includes other repositories, which previews do not support";
  if (recurseSubmodules) return "has submodules, which previews do not support";
  if (sparseCheckout?.length) return "has only some directories (sparseCheckout), which previews do not support";
  return { ignore: ignore ?? undefined, suspended: suspend === true };
}

/** What is not rendered, because nobody with write access may have seen it. */
export function withhold({ kustomizations }: FluxCandidates): readonly Ignored[] {
  const reason = "it comes from a fork, and Kustomizations of Flux are only rendered from branches of the repository";
  return kustomizations.map(({ key }: { readonly key: Key }) => ({ deployment: kustomizationName(key), reason }));
}
