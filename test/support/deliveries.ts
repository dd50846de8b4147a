/** Deliveries in the format of the git hosts: recorded ones of GitHub and Gitea, built ones of GitLab. */
import { createHmac } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import type { WebhookDefinition } from "@octokit/webhooks-examples";

export interface Delivery {
  readonly name: string;
  /** Names and values alternate, as in Node's `rawHeaders`. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

export const githubSecret = "a-secret-of-github";
export const gitlabToken = "a-token-of-gitlab";
export const gitlabSigningKey = `whsec_${Buffer.from("a signing key of 24 byte").toString("base64")}`;
export const giteaSecret = "a-recorded-secret-of-gitea";

type Example = Pick<WebhookDefinition, "name"> & { readonly examples: readonly Record<string, unknown>[] };
const examples = createRequire(import.meta.url)("@octokit/webhooks-examples") as readonly Example[];

/** GitHub's recorded payloads with a fresh signature. */
export function githubDeliveries(event: string): Delivery[] {
  const payloads = examples.find(({ name }) => name === event)?.examples ?? [];
  return payloads.map((payload) => githubDelivery(event, payload));
}

export const githubEvents: readonly string[] = examples.map(({ name }) => name);

export function githubDelivery(event: string, payload: unknown, secret = githubSecret): Delivery {
  const body = typeof payload === "string" ? payload : JSON.stringify(payload);
  const signature = `sha256=${hmac(secret, body)}`;
  return {
    name: event,
    rawHeaders: [
      ...["User-Agent", "GitHub-Hookshot/044aadd", "Content-Type", "application/json"],
      ...["X-GitHub-Event", event, "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"],
      ...["X-Hub-Signature-256", signature],
    ],
    body,
  };
}

/** An ordinary push to GitHub's recorded repository: the package contains only pushes that create or delete. */
export function githubPush(changes: Record<string, unknown> = {}): Delivery {
  const recorded = githubPayload();
  return githubDelivery("push", {
    ...recorded,
    before: "9d41e0700000000000000000000000000000aaaa",
    created: false,
    base_ref: null,
    ...changes,
  });
}

export function githubPayload(): Record<string, unknown> {
  const pushes = examples.find(({ name }) => name === "push")?.examples ?? [];
  const branch = pushes.find(({ ref }) => ref === "refs/heads/master");
  if (branch === undefined) throw new Error("@octokit/webhooks-examples has no push to a branch");
  return branch;
}

/** The repository to put in place of the recorded one. */
export interface DeliveredRepository {
  /** `org/repo` */
  readonly name: string;
  readonly url: string;
}

export interface DeliveredPullRequest {
  readonly number: number;
  readonly head: string;
  readonly fork?: boolean;
}

export interface DeliveredPush {
  readonly before: string;
  readonly after: string;
  readonly modified: readonly string[];
}

/** A recorded delivery of the action, changed to another pull request; into `main`. */
export function githubPullRequest(
  action: "opened" | "synchronize" | "closed",
  repository: DeliveredRepository,
  { number, head, fork = false }: DeliveredPullRequest,
): Delivery {
  type Recorded = Record<"pull_request" | "head" | "base" | "repo" | "repository", Record<string, unknown>>;
  const pulls = examples.find(({ name }) => name === "pull_request")?.examples ?? [];
  const recorded = structuredClone(pulls.find((one) => one["action"] === action)) as Recorded | undefined;
  if (recorded === undefined) throw new Error(`@octokit/webhooks-examples has no pull_request ${action}`);
  const { pull_request: pull } = recorded;
  const { head: from, base } = pull as Recorded;
  Object.assign(recorded, { number }, { repository: githubRepository(recorded.repository, repository) });
  Object.assign(pull, { number, merged: action === "closed" });
  Object.assign(base, { ref: "main", repo: recorded.repository });
  Object.assign(from, { sha: head, repo: { ...recorded.repository, ...(fork && { id: 4_711, fork }) } });
  return githubDelivery("pull_request", recorded);
}

export interface DeliveredGroup {
  /** Full ref name of the queue's branch. */
  readonly ref: string;
  readonly commit: string;
  readonly base: string;
}

/** A recorded merge queue delivery, changed to another group; the package has none for a group that has ended. */
export function githubMergeGroup(
  action: "checks_requested" | "destroyed",
  repository: DeliveredRepository,
  { ref, commit, base }: DeliveredGroup,
): Delivery {
  type Recorded = Record<"merge_group" | "repository", Record<string, unknown>>;
  const [example] = examples.find(({ name }) => name === "merge_group")?.examples ?? [];
  const recorded = structuredClone(example) as Recorded | undefined;
  if (recorded === undefined) throw new Error("@octokit/webhooks-examples has no merge_group");
  const group = { ...recorded.merge_group, head_sha: commit, head_ref: ref, base_sha: base };
  const why = action === "destroyed" ? { reason: "invalidated" } : {};
  const about = { merge_group: group, repository: githubRepository(recorded.repository, repository) };
  return githubDelivery("merge_group", { ...recorded, ...about, ...why, action });
}

/** The button "Re-run" of a check run, or of all runs of a commit: a recorded delivery for another commit. */
export function githubRerun(
  event: "check_run" | "check_suite",
  repository: DeliveredRepository,
  { commit, app }: { readonly commit: string; readonly app: Readonly<Record<string, unknown>> },
): Delivery {
  const recorded = examples.find(({ name }) => name === event)?.examples ?? [];
  const payload = structuredClone(recorded.find(({ action }) => action === "rerequested"));
  if (payload === undefined) throw new Error(`@octokit/webhooks-examples has no ${event} rerequested`);
  Object.assign(payload[event] as object, { head_sha: commit, app });
  Object.assign(payload, {
    repository: githubRepository(payload["repository"] as Record<string, unknown>, repository),
  });
  return githubDelivery(event, payload);
}

/** The push to the queue's branch, from which webhooks without merge group events learn of the group. */
export function githubQueuePush(
  repository: DeliveredRepository,
  { ref, commit }: DeliveredGroup,
  ended = false,
): Delivery {
  const none = "0".repeat(40);
  const moved = ended
    ? { before: commit, after: none, created: false, deleted: true, head_commit: null }
    : { before: none, after: commit, created: true, deleted: false, head_commit: { id: commit } };
  const recorded = githubPayload()["repository"] as Record<string, unknown>;
  return githubPush({ ...moved, ref, commits: [], repository: githubRepository(recorded, repository) });
}

/** A push to `main` of another repository. */
export function githubPushTo(repository: DeliveredRepository, { before, after, modified }: DeliveredPush): Delivery {
  const commit = { id: after, added: [], modified, removed: [] };
  const recorded = githubPayload()["repository"] as Record<string, unknown>;
  const moved = { ref: "refs/heads/main", before, after, commits: [commit], head_commit: commit };
  return githubPush({ ...moved, repository: githubRepository(recorded, repository) });
}

function githubRepository(recorded: Record<string, unknown>, { name, url }: DeliveredRepository) {
  const { hostname } = new URL(url);
  const others = { html_url: url.replace(/\.git$/, ""), ssh_url: `git@${hostname}:${name}.git`, git_url: url };
  return { ...recorded, ...others, full_name: name, clone_url: url, default_branch: "main" };
}

const giteaDirectory = new URL("../fixtures/deliveries/gitea/", import.meta.url);

/** A recorded delivery of Gitea, byte for byte. */
export function giteaDelivery(name: string): Delivery {
  const recorded = JSON.parse(readFileSync(new URL(`${name}.json`, giteaDirectory), "utf8")) as Omit<Delivery, "name">;
  return { name, ...recorded };
}

export function giteaDeliveries(): Delivery[] {
  return readdirSync(giteaDirectory).map((file) => giteaDelivery(file.replace(/\.json$/, "")));
}

/** Replaces the body and signs it as Gitea would. */
export function resignGitea(delivery: Delivery, body: string): Delivery {
  return {
    ...delivery,
    rawHeaders: replaceHeader(delivery.rawHeaders, "X-Gitea-Signature", hmac(giteaSecret, body)),
    body,
  };
}

const project = {
  id: 15,
  name: "Shop",
  description: "",
  web_url: "https://gitlab.example.com/group/shop",
  git_ssh_url: "git@gitlab.example.com:group/shop.git",
  git_http_url: "https://gitlab.example.com/group/shop.git",
  namespace: "group",
  path_with_namespace: "group/shop",
  default_branch: "main",
};

const [before, after] = ["95790bf891e76fee5e1747ab589903a6a1f80f22", "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"];

/** A push event with the fields that GitLab documents. */
export function gitlabPush(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    object_kind: "push",
    event_name: "push",
    before,
    after,
    ref: "refs/heads/main",
    ref_protected: true,
    checkout_sha: after,
    user_id: 4,
    user_username: "example",
    project_id: 15,
    project,
    commits: [
      { id: after, message: "Raise frontend", added: ["shop/new.yaml"], modified: ["shop/app.yaml"], removed: [] },
    ],
    total_commits_count: 1,
    push_options: {},
    ...changes,
  };
}

export function gitlabTagPush(changes: Record<string, unknown> = {}): Record<string, unknown> {
  const tag = { object_kind: "tag_push", event_name: "tag_push", ref: "refs/tags/v1", before: "0".repeat(40) };
  return gitlabPush({ ...tag, after: "1".repeat(40), commits: [], total_commits_count: 0, ...changes });
}

export function gitlabMergeRequest(attributes: Record<string, unknown> = {}, changes = {}): Record<string, unknown> {
  return {
    object_kind: "merge_request",
    event_type: "merge_request",
    project,
    object_attributes: {
      ...{ id: 99, iid: 7, action: "open", state: "opened", draft: false },
      ...{ target_branch: "main", source_branch: "feature", source_project_id: 15, target_project_id: 15 },
      last_commit: { id: after, message: "More" },
      ...attributes,
    },
    changes,
  };
}

/** A merge request of another project into `main`, signed. */
export function gitlabMergeRequestOf(
  repository: DeliveredRepository,
  { number, head, fork = false }: DeliveredPullRequest,
  attributes: Record<string, unknown>,
): Delivery {
  const about = { iid: number, last_commit: { id: head, message: "More" }, ...(fork && { source_project_id: 16 }) };
  return signGitlab(
    gitlabDelivery({ ...gitlabMergeRequest({ ...about, ...attributes }), project: gitlabProject(repository) }),
  );
}

/** A push to `main` of another project, signed. */
export function gitlabPushTo(repository: DeliveredRepository, { before, after, modified }: DeliveredPush): Delivery {
  const commits = [{ id: after, message: "More", added: [], modified, removed: [] }];
  const moved = { before, after, checkout_sha: after, commits };
  return signGitlab(gitlabDelivery(gitlabPush({ ...moved, project: gitlabProject(repository) })));
}

function gitlabProject({ name, url }: DeliveredRepository) {
  const { hostname } = new URL(url);
  const urls = { git_http_url: url, web_url: url.replace(/\.git$/, ""), git_ssh_url: `git@${hostname}:${name}.git` };
  return { ...project, ...urls, path_with_namespace: name };
}

const gitlabEventNames: Readonly<Record<string, string>> = {
  push: "Push Hook",
  tag_push: "Tag Push Hook",
  merge_request: "Merge Request Hook",
};

/** Has the plain token; `signGitlab` makes the signed form. */
export function gitlabDelivery(payload: unknown): Delivery {
  const kind = (payload as { object_kind?: string } | null)?.object_kind ?? "";
  const body = JSON.stringify(payload);
  return {
    name: kind,
    rawHeaders: [
      ...["Content-Type", "application/json", "X-Gitlab-Event", gitlabEventNames[kind] ?? "System Hook"],
      ...["Idempotency-Key", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"],
      ...["X-Gitlab-Event-UUID", "13792a34-cac6-4fda-95a8-c58e00a3954e", "X-Gitlab-Token", gitlabToken],
    ],
    body,
  };
}

export function signGitlab(
  { name, rawHeaders, body }: Delivery,
  { key = gitlabSigningKey, atMs = Date.now(), id = "msg-1" } = {},
): Delivery {
  const timestamp = String(Math.floor(atMs / 1_000));
  const secret = Buffer.from(key.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64");
  const token = rawHeaders.indexOf("X-Gitlab-Token");
  return {
    name,
    rawHeaders: [
      ...rawHeaders.filter((_, i) => i !== token && i !== token + 1),
      ...["webhook-id", id, "webhook-timestamp", timestamp, "webhook-signature", `v1,${signature}`],
    ],
    body,
  };
}

export function replaceHeader(rawHeaders: readonly string[], name: string, value: string | undefined): string[] {
  const without = rawHeaders.filter((_, i) => rawHeaders[i - (i % 2)]?.toLowerCase() !== name.toLowerCase());
  return value === undefined ? without : [...without, name, value];
}

export function hmac(secret: string, body: string | Buffer): string {
  return createHmac("sha256", secret).update(body).digest("hex");
}
