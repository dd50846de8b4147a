/** Checks that each repository can be read with its credentials and has the refs that deployments follow. */
import { commitOf, describeRef } from "../model/git-ref.ts";
import { followsGit, type GitDeployment, type Heads, keyText } from "../model.ts";
import { loginKey } from "../access/credentials.ts";
import type { ListedDeployment } from "./cluster.ts";
import { type Finding, ok, problem } from "./finding.ts";

/** Lists the remote's refs with the deployment's credentials. */
export type ReadHeads = (deployment: GitDeployment) => Promise<Heads>;

export async function examineRepositories(
  readHeads: ReadHeads,
  found: readonly ListedDeployment[],
): Promise<Finding[]> {
  const followers = found.map(({ deployment }) => deployment).filter(followsGit);
  const groups = [...Map.groupBy(followers, loginKey).values()];
  return (await Promise.all(groups.map((group) => examineRepository(readHeads, group)))).flat();
}

async function examineRepository(readHeads: ReadHeads, group: readonly GitDeployment[]): Promise<Finding[]> {
  const [first] = group;
  if (first === undefined) return [];
  const subject: string = first.repo;
  const followers = group.length === 1 ? keyText(first.key) : `${keyText(first.key)} and ${group.length - 1} more`;
  let heads: Heads;
  try {
    heads = await readHeads(first);
  } catch (error) {
    return [problem(subject, `${(error as Error).message} (${followers})`)];
  }
  const lost = group.flatMap(({ key, spec: { source } }) =>
    commitOf(source.ref, heads) === undefined
      ? [
          problem(
            subject,
            `no ${describeRef(source.ref)}, which ${keyText(key)} follows`,
            "push it, or change spec.source.git.ref",
          ),
        ]
      : [],
  );
  return lost.length > 0 ? lost : [ok(subject, `readable (${followers})`)];
}
