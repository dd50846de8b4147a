/** Checks whether the forges' logins may write at the followed repositories, and the clocks of the git hosts. */
import { followsGit, type RepoId } from "../model.ts";
import type { ListedDeployment } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

export interface ForgeLooker {
  readonly id: string;
  /** `undefined` for a repository of another host. */
  readonly repoName: (repo: RepoId) => string | undefined;
  /** What the login may not write there. Throws if that cannot be checked. */
  readonly lacks: (repoName: string) => Promise<readonly string[]>;
}

export async function examineWriteAccess(
  { id, repoName, lacks }: ForgeLooker,
  found: readonly ListedDeployment[],
): Promise<Finding[]> {
  const repos = new Set(found.flatMap(({ deployment }) => (followsGit(deployment) ? [deployment.repo] : [])));
  const names = [...repos].sort().flatMap((repo) => repoName(repo) ?? []);
  const check = async (name: string): Promise<Finding> => {
    const subject = `forge ${id}`;
    try {
      const lacking = await lacks(name);
      if (lacking.length === 0) return ok(subject, `${name}: the login may write comments and commit statuses`);
      return problem(
        subject,
        `${name}: the login may not write ${lacking.join(" and ")}`,
        `grant it that permission: docs/connect-github.md, connect-gitlab.md or connect-gitea.md`,
      );
    } catch (error) {
      return problem(subject, `${name}: ${(error as Error).message}`);
    }
  };
  return Promise.all(names.map(check));
}

/** Git hosts sign deliveries with a timestamp, and Apps log in with one. */
const mostSkewMs = 30_000;

/** `dateOf`: the time at a host in epoch milliseconds; `undefined` if unknown. */
export async function examineClocks(
  origins: readonly string[],
  dateOf: (origin: string) => Promise<number | undefined>,
  now: () => number,
): Promise<Finding[]> {
  const findings = await Promise.all(
    origins.map(async (origin): Promise<Finding[]> => {
      const from = now();
      const date = await dateOf(origin);
      if (date === undefined) return [];
      const aheadMs = (from + now()) / 2 - (date + 500); // the header has whole seconds
      const { host } = new URL(origin);
      if (Math.abs(aheadMs) <= mostSkewMs) return [ok("clock", `in sync with ${host}`)];
      const skew = `${Math.abs(aheadMs / 1_000).toFixed(0)} s ${aheadMs > 0 ? "ahead of" : "behind"}`;
      return [warning("clock", `this machine's clock is ${skew} that of ${host}`, "synchronize both with NTP")];
    }),
  );
  return findings.flat();
}
