/**
 * `towline preview --allow`: one commit of a fork may be previewed, with all that a branch gets. It is written into the
 * KluctlDeployments, so that it takes the right to change those.
 */
import { ApiError, ConfigError } from "../errors.ts";
import { addressOf, askingManager, isLegacy } from "../kube/asking.ts";
import type { KubeClient } from "../kube/client.ts";
import { annotation, followsGit, type GitDeployment, keyText, parsePullRequestText } from "../model.ts";
import { type Allowance, isFullHash, longestAllowanceMs, withAllowance } from "../preview/allowances.ts";
import { createReader, listOfBothApis } from "./both-apis.ts";
import { clusterConfig, type ClusterFlags, type FoundDeployment, whyUnwatched } from "./cluster.ts";
import type { ProgramDeps } from "./commands.ts";

interface Allowing {
  /** As `towline get previews` names it. */
  readonly pullRequest: string;
  readonly commit: string;
}

interface Found extends FoundDeployment {
  readonly deployment: GitDeployment;
}

/** Prints what became of each deployment that follows the repository. False if one of them could not be told. */
export async function allowPreview(
  { pullRequest, commit }: Allowing,
  flags: ClusterFlags,
  { env, out, err }: Pick<ProgramDeps, "env" | "out" | "err">,
): Promise<boolean> {
  const named = parsePullRequestText(pullRequest);
  if (named === undefined) {
    throw new ConfigError(
      `--allow ${pullRequest} is no pull request: write it as \`towline get previews\` does, e.g. github:org/shop#7`,
    );
  }
  const head = commit.toLowerCase();
  if (!isFullHash(head)) {
    throw new ConfigError(
      "which commit? Give the full hash of the head that you have read: towline preview --allow <pull request> <sha>",
    );
  }
  const cluster = clusterConfig(env, flags);
  const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
  const client = createKubeClient(cluster.kubernetes);
  try {
    const all = (await listOfBothApis(client, { ...cluster, err })).filter(isOfGit);
    const end = `/${named.repoName.toLowerCase()}`;
    const following = all.filter(
      ({ deployment: { repo, key } }) => repo.endsWith(end) && whyUnwatched(key.namespace, cluster) === undefined,
    );
    if (following.length === 0) {
      throw new Error(`no KluctlDeployment that the server works on follows ${named.repoName}`);
    }
    const now = Date.now();
    const until = new Date(now + longestAllowanceMs).toISOString();
    let isTold = true;
    for (const found of following) {
      const { repo, key } = found.deployment;
      const problem = await write(client, found, { pullRequest, repo, head, until }, now);
      isTold &&= problem === undefined;
      const words = `${pullRequest} may be previewed at ${head.slice(0, 7)} until ${until}`;
      if (problem === undefined) out(`${keyText(key)}: ${words}\n`);
      else err(`${keyText(key)}: not allowed: ${problem}\n`);
    }
    return isTold;
  } finally {
    client.close();
  }
}

function isOfGit(found: FoundDeployment): found is Found {
  return followsGit(found.deployment);
}

/** What others have allowed meanwhile stays. Returns why it could not be written. */
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
      path: addressOf(deployment.key, isLegacy(deployment)),
      query: { fieldManager: askingManager },
      body: { metadata: { resourceVersion, annotations } },
    });
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 409) return error.message;
    const again = await createReader(client)(found);
    return again === undefined || !isOfGit(again) ? "it is gone" : write(client, again, allowance, now);
  }
}
