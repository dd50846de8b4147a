/** Flux's GitRepository, as far as the older KluctlDeployments use it: it says where the project is, and nothing is fetched by Flux. */
import { z } from "zod";
import { type Key, keyText } from "../../model.ts";

export const fluxGroupPath = "/apis/source.toolkit.fluxcd.io";

export interface GitRepository {
  readonly key: Key;
  readonly resourceVersion: string;
  readonly url: string;
  readonly ref: { readonly branch?: string | undefined; readonly tag?: string | undefined };
  readonly secretName?: string | undefined;
  /** Flux checks signatures for it; nobody else does. */
  readonly verifies: boolean;
  /** Why it cannot be followed, if so. */
  readonly problem?: string | undefined;
}

/** `not-served`: the cluster knows no GitRepositories; `forbidden`: we may not read it. */
export type FoundGitRepository = GitRepository | "not-served" | "forbidden" | undefined;

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

/** `undefined` for what is none. */
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
