/** Each repository: does the remote answer to the logins, and does it have what is followed. */
import { commitOf, describeRef } from "../git-ref.ts";
import { followsGit, type GitDeployment, type Heads, keyText } from "../model.ts";
import { loginKey } from "../reconcile/credentials.ts";
import type { FoundDeployment } from "./cluster.ts";
import { type Finding, ok, problem } from "./finding.ts";

/** The remote's refs, asked for with the deployment's logins. */
export type AskHeads = (deployment: GitDeployment) => Promise<Heads>;

export async function examineRepositories(askHeads: AskHeads, found: readonly FoundDeployment[]): Promise<Finding[]> {
  const followers = found.map(({ deployment }) => deployment).filter(followsGit);
  const groups = [...Map.groupBy(followers, loginKey).values()];
  return (await Promise.all(groups.map((group) => examineRepository(askHeads, group)))).flat();
}

async function examineRepository(askHeads: AskHeads, group: readonly GitDeployment[]): Promise<Finding[]> {
  const [first] = group;
  if (first === undefined) return [];
  const subject: string = first.repo;
  const who = group.length === 1 ? keyText(first.key) : `${keyText(first.key)} and ${group.length - 1} more`;
  let heads: Heads;
  try {
    heads = await askHeads(first);
  } catch (error) {
    return [problem(subject, `${(error as Error).message} (${who})`)];
  }
  const lost = group.flatMap(({ key, spec: { source } }) =>
    commitOf(source.ref, heads) === undefined
      ? [
          problem(
            subject,
            `there is no ${describeRef(source.ref)}, which ${keyText(key)} follows`,
            "push it, or follow another",
          ),
        ]
      : [],
  );
  return lost.length > 0 ? lost : [ok(subject, `answers (${who})`)];
}
