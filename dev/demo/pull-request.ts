/** A pull request as the git host's page shows it. */
import { setTimeout as delay } from "node:timers/promises";
import type { ShopRepository } from "./repository.ts";

export interface PullRequest {
  readonly number: number;
  readonly url: string;
  /** Its newest commit. */
  head(): Promise<string>;
  /** The comments of the server's account, oldest first. */
  comments(): Promise<readonly Comment[]>;
  /** Resolves with the merge commit. */
  merge(): Promise<string>;
}

export interface Comment {
  readonly id: number;
  /** URL of the comment. */
  readonly url: string;
  readonly body: string;
}

/** A commit status. */
export interface Status {
  readonly context: string;
  readonly state: string;
  readonly description: string;
}

type Shop = Pick<ShopRepository, "host" | "repository" | "reporter">;

const mergePatienceMs = 20_000;

/** Opens a pull request into `main`. */
export async function openPullRequest(shop: Shop, branch: string, title: string): Promise<PullRequest> {
  const body = { title, head: branch, base: "main" };
  const { number } = await shop.host.call<{ number: number }>("POST", `${pathOf(shop)}/pulls`, body);
  return findPullRequest(shop, number);
}

export function findPullRequest(shop: Shop, number: number): PullRequest {
  const { host, repository, reporter } = shop;
  const pull = `${pathOf(shop)}/pulls/${number}`;
  return {
    number,
    url: `${reporter.url}/${repository.owner}/${repository.name}/pulls/${number}`,
    head: async () => (await host.call<{ head: { sha: string } }>("GET", pull)).head.sha,
    async comments() {
      type Answer = { id: number; html_url: string; body: string; user: { login: string } };
      const comments = await host.call<Answer[]>("GET", `${pathOf(shop)}/issues/${number}/comments`);
      return comments
        .filter(({ user }) => user.login === reporter.user)
        .map(({ id, html_url: url, body }) => ({ id, url, body }));
    },
    async merge() {
      const deadline = Date.now() + mergePatienceMs;
      // Gitea checks in the background whether it can be merged, and refuses until that is done.
      for (;;) {
        try {
          await host.call("POST", `${pull}/merge`, { Do: "merge" });
          return (await host.call<{ merge_commit_sha: string }>("GET", pull)).merge_commit_sha;
        } catch (error) {
          if (Date.now() > deadline) throw error;
          await delay(100);
        }
      }
    },
  };
}

/** The latest commit status of each context. */
export async function statusesOf(shop: Shop, commit: string): Promise<readonly Status[]> {
  type Answer = { statuses: { context: string; status: string; description: string }[] | null };
  const { statuses } = await shop.host.call<Answer>("GET", `${pathOf(shop)}/commits/${commit}/status`);
  return (statuses ?? [])
    .map(({ context, status, description }) => ({ context, state: status, description }))
    .toSorted((a, b) => a.context.localeCompare(b.context));
}

function pathOf({ repository: { owner, name } }: Shop): string {
  return `/repos/${owner}/${name}`;
}
