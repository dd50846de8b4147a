/**
 * `towline preview --allow`: allows the server to preview one commit of a fork as if it came from a branch of the repository.
 * The allowance is written to the KluctlDeployments, so that it requires the right to update them.
 */
import { ApiError, ConfigError } from "../errors.ts";
import { askingManager, resourcePath } from "../apis/api.ts";
import { apiOf } from "../apis/apis.ts";
import type { KubeClient } from "../kube/client.ts";
import { annotation, followsGit, type GitDeployment, keyText, parsePullRequestText } from "../model.ts";
import { type Allowance, isFullHash, longestAllowanceMs, withAllowance } from "../preview/allowances.ts";
import { librariesOf } from "../preview/match-consumers.ts";
import { createReader, listAllDeployments } from "./list-deployments.ts";
import { clusterConfig, type ClusterFlags, type FoundDeployment, whyUnwatched } from "./cluster.ts";
import type { ProgramDeps } from "./commands.ts";

interface Allowing {
  /** Name as in `towline get previews`. */
  readonly pullRequest: string;
  readonly commit: string;
}

interface Found extends FoundDeployment {
  readonly deployment: GitDeployment;
}

/**
 * Prints the outcome for each deployment that follows the repository, or includes it and may be shown there. False if one
 * of them could not be updated.
 */
export async function allowPreview(
  { pullRequest, commit }: Allowing,
  flags: ClusterFlags,
  { env, out, err }: Pick<ProgramDeps, "env" | "out" | "err">,
): Promise<boolean> {
  const named = parsePullRequestText(pullRequest);
  if (named === undefined) {
    throw new ConfigError(
      `--allow: ${JSON.stringify(pullRequest)} is not a pull request; use its name in \`towline get previews\`, such as github:org/shop#7`,
    );
  }
  const head = commit.toLowerCase();
  if (!isFullHash(head)) {
    throw new ConfigError(
      "--allow needs the full hash of the commit that you have reviewed: towline preview --allow <pull request> <sha>",
    );
  }
  const cluster = clusterConfig(env, flags);
  const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
  const client = createKubeClient(cluster.kubernetes);
  try {
    const all = (await listAllDeployments(client, { ...cluster, err })).filter(isOfGit);
    const end = `/${named.repoName.toLowerCase()}`;
    const isOfRepo = (deployment: GitDeployment) =>
      [deployment.repo, ...librariesOf(deployment).map(({ repo }) => repo)].some((repo) => repo.endsWith(end));
    const following = all.filter(
      ({ deployment }) => isOfRepo(deployment) && whyUnwatched(deployment.key.namespace, cluster) === undefined,
    );
    if (following.length === 0) {
      throw new Error(`no KluctlDeployment in the watched namespaces follows ${named.repoName}`);
    }
    const now = Date.now();
    const until = new Date(now + longestAllowanceMs).toISOString();
    let isWritten = true;
    for (const found of following) {
      const { repo, key } = found.deployment;
      const problem = await write(client, found, { pullRequest, repo, head, until }, now);
      isWritten &&= problem === undefined;
      const words = `${pullRequest} may be previewed at ${head.slice(0, 7)} until ${until}`;
      if (problem === undefined) out(`${keyText(key)}: ${words}\n`);
      else err(`${keyText(key)}: not allowed: ${problem}\n`);
    }
    return isWritten;
  } finally {
    client.close();
  }
}

function isOfGit(found: FoundDeployment): found is Found {
  return followsGit(found.deployment);
}

/** Keeps allowances that others have written in the meantime. Returns the reason if it could not be written. */
async function write(
  client: Pick<KubeClient, "request">,
  found: Found,
  allowance: Allowance,
  now: number,
): Promise<string | undefined> {
  const { deployment, resource } = found;
  const { resourceVersion } = (resource["metadata"] ?? {}) as { resourceVersion?: string };
  const annotations = { [annotation.allowPreview]: withAllowance(deployment, allowance, now) };
  try {
    await client.request({
      method: "PATCH",
      path: resourcePath(apiOf(deployment), deployment.key),
      query: { fieldManager: askingManager },
      body: { metadata: { resourceVersion, annotations } },
    });
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 409) return error.message;
    const again = await createReader(client)(found);
    return again === undefined || !isOfGit(again)
      ? "the deployment no longer exists"
      : write(client, again, allowance, now);
  }
}
