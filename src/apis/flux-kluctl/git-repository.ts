/**
 * Flux's GitRepository, as far as legacy KluctlDeployments use it: it names where the project is. Nothing is fetched by
 * Flux.
 */
import { z } from "zod";
import { type Key, keyText } from "../../model.ts";

export interface GitRepository {
  readonly key: Key;
  readonly resourceVersion: string;
  readonly url: string;
  readonly ref: { readonly branch?: string | undefined; readonly tag?: string | undefined };
  readonly secretName?: string | undefined;
  /** Whether it requires signature verification, which only Flux does. */
  readonly verifies: boolean;
  /** Why it cannot be followed, if it cannot. */
  readonly problem?: string | undefined;
}

/** `not-served`: the cluster has no GitRepositories; `forbidden`: we may not read it; `unread`: the API server does not list it. */
export type FoundGitRepository = GitRepository | "not-served" | "forbidden" | "unread" | undefined;

const optionalText = z.string().nullish();

const Resource = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string(), resourceVersion: z.string().catch("") }),
  spec: z.object({
    url: z.string().catch(""),
    ref: z
      .object({
        branch: optionalText,
        tag: optionalText,
        commit: optionalText,
        semver: optionalText,
        name: optionalText,
      })
      .nullish()
      .catch(undefined),
    secretRef: z.object({ name: z.string() }).nullish().catch(undefined),
    verify: z.unknown().optional(),
  }),
});

/** Returns `undefined` if the resource is not a GitRepository. */
export function parseGitRepository(resource: unknown): GitRepository | undefined {
  const { data } = Resource.safeParse(resource);
  if (data === undefined) return undefined;
  const { name, namespace, resourceVersion } = data.metadata;
  const { url, ref, secretRef, verify } = data.spec;
  const key = { namespace, name };
  const odd = (["commit", "semver", "name"] as const).find((kind) => ref?.[kind]);
  return {
    key,
    resourceVersion,
    url,
    ref: { branch: ref?.branch || undefined, tag: ref?.tag || undefined },
    secretName: secretRef?.name || undefined,
    verifies: verify !== undefined && verify !== null,
    problem: odd && `GitRepository ${keyText(key)}: spec.ref.${odd} is not supported; only branch and tag are`,
  };
}
