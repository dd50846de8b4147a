/** Finds the commit that a deployment follows now. */
import { readGitCredentials } from "../access/credentials.ts";
import type { Freshness, GitDeployment } from "../model.ts";
import { commitOf } from "../model/git-ref.ts";
import type { Secrets, Sources } from "../ports.ts";

export interface HeadDeps {
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads">;
}

/** One `ls-remote`, or an earlier answer as `freshness` allows; `undefined`: the ref does not exist. */
export async function findHead(
  deployment: GitDeployment,
  freshness: Freshness | undefined,
  { secrets, sources }: HeadDeps,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { source } = deployment.spec;
  const credentials = await readGitCredentials(deployment, secrets);
  const heads = await sources.heads({ url: source.url, credentials }, freshness, signal, { leaves: true });
  return commitOf(source.ref, heads);
}
