/** Pull requests on the real Gitea, as the people see them who work there. */
import { expect } from "vitest";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import { type Towline, useTowline } from "./towline.ts";
import { type TestForge, type TestRepository, type TestWorld, uniqueName, useGitea } from "./world.ts";
import { patience } from "./world-cluster.ts";

export interface PullRequests {
  readonly gitea: TestForge;
  readonly repo: TestRepository;
  /** The repository's API path. */
  readonly path: string;
  readonly towline: Towline;
  /** Pushes the changes to a new branch and proposes it. */
  open(changes: FileChanges, options?: { base?: string; draft?: boolean }): Promise<OpenPullRequest>;
  /** State and description of what stands beside a commit, by context. */
  statuses(commit: string): Promise<Record<string, string>>;
}

export interface OpenPullRequest {
  readonly number: number;
  readonly branch: string;
  readonly head: string;
  /** What Towline's account has written there, oldest first. */
  comments(): Promise<readonly { readonly id: number; readonly body: string }[]>;
  /** Waits until there is one comment that contains the text; on failure says what there is. */
  comment(text: string): Promise<string>;
  push(changes: FileChanges): Promise<string>;
  edit(changes: object): Promise<void>;
  merge(): Promise<void>;
}

/** The variables with which a server talks to this Gitea. */
export function giteaVariables({ login }: TestForge): Record<string, string> {
  return { TOWLINE_GITEA_API_URL: `${login.url}/api/v1`, TOWLINE_GITEA_TOKEN: login.token };
}

/** A repository on the real Gitea, which tells a server about it by real webhooks. */
export async function usePullRequests(world: TestWorld, extra: Record<string, string> = {}): Promise<PullRequests> {
  const gitea = await useGitea();
  const repo = await gitea.repo("shop");
  const towline = await useTowline(world, { ...giteaVariables(gitea), TOWLINE_CLUSTER_NAME: "eu-1", ...extra });
  await gitea.registerWebhook(repo, {
    url: towline.webhooksUrl,
    secret: towline.webhookSecret,
    events: ["push", "create", "delete", "pull_request"],
  });
  const path = `/repos/${gitea.organization}/shop`;

  return {
    gitea,
    repo,
    path,
    towline,
    async open(changes, { base = "main", draft = false } = {}) {
      const branch = uniqueName("feature");
      await repo.git("fetch", "--quiet", "origin", base);
      await repo.git("checkout", "--quiet", "-b", branch, "FETCH_HEAD");
      const head = await repo.push(changes, { branch });
      const title = draft ? "WIP: Change" : "Change";
      const { number } = await gitea.call<{ number: number }>("POST", `${path}/pulls`, { title, head: branch, base });
      return onPullRequest(gitea, path, repo, { number, branch, head });
    },
    async statuses(commit) {
      type Status = { context: string; status: string; description: string };
      const { statuses } = await gitea.call<{ statuses: Status[] | null }>("GET", `${path}/commits/${commit}/status`);
      return Object.fromEntries((statuses ?? []).map((one) => [one.context, `${one.status}: ${one.description}`]));
    },
  };
}

function onPullRequest(
  gitea: TestForge,
  path: string,
  repo: TestRepository,
  { number, branch, head }: Pick<OpenPullRequest, "number" | "branch" | "head">,
): OpenPullRequest {
  const comments = () =>
    gitea.call<{ id: number; body: string; user: { login: string } }[]>("GET", `${path}/issues/${number}/comments`);
  return {
    number,
    branch,
    head,
    comments,
    async comment(text) {
      let bodies: string[] = [];
      await expect
        .poll(async () => {
          bodies = (await comments()).map(({ body }) => body);
          return bodies.length === 1 && bodies[0]?.includes(text);
        }, patience)
        .toBe(true)
        .catch((cause: unknown) => {
          throw new Error(`there is no one comment with ${JSON.stringify(text)}: ${bodies.join("\n---\n")}`, { cause });
        });
      return bodies[0] ?? "";
    },
    push: (changes) => repo.push(changes, { branch }),
    async edit(changes) {
      await gitea.call("PATCH", `${path}/pulls/${number}`, changes);
    },
    async merge() {
      // Whether it can be merged is found out in the background.
      const merge = () => gitea.call("POST", `${path}/pulls/${number}/merge`, { Do: "merge" }).then(() => true);
      await expect.poll(() => merge().catch(() => false), patience).toBe(true);
    },
  };
}
