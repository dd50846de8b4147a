/** A plain git server that stands in for Gitea until that is there. */
import { createHmac, randomUUID } from "node:crypto";
import { join } from "node:path";
import { startGitHttp } from "../parts/git-http.ts";
import { createWorkCopy, type WorkCopy } from "../parts/work-copy.ts";
import { type Commit, fillRepository, type PushedShop } from "./repository.ts";
import type { DemoServer } from "./server.ts";

export interface PlainShop extends PushedShop {
  readonly url: string;
  /** From then on, each push of the working copy is followed by the webhook that Gitea would send. */
  sendWebhooks(webhook: DemoServer["webhook"]): void;
  stop(): Promise<void>;
}

export async function startPlainShop(stateDir: string, dir: string): Promise<PlainShop> {
  const host = await startGitHttp({ root: join(stateDir, "git") });
  const cloneUrl = await host.createRepository("example/shop");
  const repository = { owner: "example", name: "shop", cloneUrl };
  const copy = await createWorkCopy(dir, cloneUrl);
  const firstCommit = await fillRepository(copy);
  let webhook: DemoServer["webhook"] | undefined;

  async function head(branch: string): Promise<Commit | undefined> {
    const line = await copy.git("ls-remote", "origin", `refs/heads/${branch}`);
    const [id] = line.split("\t");
    return id ? { id, message: await copy.git("show", "--no-patch", "--format=%B", id) } : undefined;
  }
  const workCopy: WorkCopy = {
    ...copy,
    async push(changes, options = {}) {
      const branch = options.branch ?? "main";
      const before = (await head(branch))?.id ?? "0".repeat(40);
      const after = await copy.push(changes, options);
      if (webhook) await deliver(webhook, { cloneUrl, branch, before, after, modified: Object.keys(changes) });
      return after;
    },
  };
  return {
    ...{ url: host.url, repository, workCopy, firstCommit, head },
    sendWebhooks: (target) => void (webhook = target),
    stop: () => host.stop(),
  };
}

export interface PlainPush {
  readonly cloneUrl: string;
  readonly branch: string;
  readonly before: string;
  readonly after: string;
  readonly modified: readonly string[];
}

/** The delivery that Gitea would send, reduced to what a receiver needs, with Gitea's signature. */
export function toDelivery({ cloneUrl, branch, before, after, modified }: PlainPush, secret: string) {
  const body = JSON.stringify({
    ref: `refs/heads/${branch}`,
    ...{ before, after },
    commits: [{ id: after, added: [], removed: [], modified }],
    total_commits: 1,
    head_commit: { id: after },
    sender: { login: "ada" },
    repository: { full_name: "example/shop", default_branch: "main", clone_url: cloneUrl },
  });
  const headers = {
    "content-type": "application/json",
    "x-gitea-event": "push",
    "x-gitea-delivery": randomUUID(),
    "x-gitea-signature": createHmac("sha256", secret).update(body).digest("hex"),
  };
  return { headers, body };
}

async function deliver({ url, secret }: DemoServer["webhook"], push: PlainPush): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  const response = await fetch(url, { method: "POST", ...toDelivery(push, secret), signal });
  if (!response.ok) throw new Error(`The server answered ${response.status} to the webhook: ${await response.text()}`);
}
