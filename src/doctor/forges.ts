/** Checks whether the forges' logins may write at the followed repositories, and the clocks of the git hosts. */
import { followsGit, type RepoId } from "../model.ts";
import type { ListedDeployment } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

export interface ForgeLooker {
  readonly id: string;
  /** `undefined` for a repository of another host. */
  readonly repoName: (repo: RepoId) => string | undefined;
  /** Throws if that cannot be checked. */
  readonly access: (repoName: string) => Promise<LoginAccess>;
}

/** What a login may write at a repository, as text for users. */
export interface LoginAccess {
  readonly lacks: readonly string[];
  /** How the states of commits are shown: `commit statuses`. */
  readonly shows: string;
  readonly advice?: string | undefined;
}

export async function examineWriteAccess(
  { id, repoName, access }: ForgeLooker,
  found: readonly ListedDeployment[],
): Promise<Finding[]> {
  const repos = new Set(found.flatMap(({ deployment }) => (followsGit(deployment) ? [deployment.repo] : [])));
  const names = [...repos].sort().flatMap((repo) => repoName(repo) ?? []);
  const check = async (name: string): Promise<Finding> => {
    const subject = `forge ${id}`;
    try {
      const { lacks, shows, advice } = await access(name);
      const may = `${name}: the login may write comments and ${shows}`;
      if (lacks.length === 0 && advice !== undefined) return warning(subject, `${may}, but not check runs`, advice);
      if (lacks.length === 0) return ok(subject, may);
      return problem(
        subject,
        `${name}: the login may not write ${lacks.join(" and ")}`,
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
