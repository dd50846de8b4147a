/** Gitea's and Forgejo's deliveries: https://docs.gitea.com/usage/webhooks. They resemble GitHub's, but differ. */
import { createHmac } from "node:crypto";
import { z } from "zod";
import type { GitEvent, PullRequestEvent } from "../../model.ts";
import {
  Commit,
  Commits,
  MaybeUrl,
  Name,
  deliveryId,
  distinctUrls,
  irrelevant,
  lenient,
  misshapen,
  parseJson,
  quoted,
  refProblem,
  toPushChange,
} from "../payload.ts";
import { signatureFitsAny } from "../secrets.ts";
import { Flow, Origin, originOf } from "./origin.ts";
import {
  type DeliveryHeaders,
  type Verification,
  type WebhookSource,
  type WebhookSourceOptions,
  findHeader,
  genuine,
  refused,
  signatureProblem,
} from "../webhook-source.ts";

const Repository = z.object({
  full_name: Name,
  default_branch: lenient(Name),
  clone_url: MaybeUrl,
  ssh_url: MaybeUrl,
  html_url: MaybeUrl,
});

const Push = z.object({
  ref: Name,
  before: Commit,
  after: Commit,
  commits: Commits,
  total_commits: lenient(z.int()),
  head_commit: lenient(z.object({ id: Commit })),
  sender: lenient(z.object({ login: Name })),
  repository: Repository,
});

const Delete = z.object({ ref: Name, ref_type: z.enum(["branch", "tag"]), repository: Repository });

const PullRequest = z.object({
  action: Name,
  number: z.int().positive(),
  pull_request: z.object({
    title: lenient(z.string()),
    draft: lenient(z.boolean()),
    head: z.object({ sha: Commit, ...Origin }),
    base: z.object({ ref: Name, repo_id: lenient(z.int()) }),
    flow: Flow,
  }),
  changes: lenient(z.object({ ref: z.unknown().optional(), title: lenient(z.object({ from: lenient(z.string()) })) })),
  repository: Repository,
});

const actions = new Map<string, PullRequestEvent["action"]>([
  ["opened", "opened"],
  ["synchronized", "updated"],
  ["reopened", "reopened"],
  ["closed", "closed"],
]);

export function createGiteaSource({ id, secrets, allowUnsigned }: WebhookSourceOptions): WebhookSource {
  async function verify(headers: DeliveryHeaders, body: Buffer): Promise<Verification> {
    if (secrets.length === 0 && allowUnsigned) return genuine;
    // Forgejo sends both. GitHub's X-Hub-Signature-256, which Gitea and Forgejo send too, is ignored.
    const names = ["x-gitea-signature", "x-forgejo-signature"].filter((name) => headers.has(name));
    const signatures = names.map((name) => findHeader(headers, name));
    if (signatures.length === 0 || signatures.includes(undefined)) {
      if (names.length === 0 && headers.has("x-hub-signature-256") && !headers.has("x-gitea-event")) {
        return refused("This delivery comes from GitHub: configure the forge with `kind: github`.");
      }
      const repeated = names.find((name) => findHeader(headers, name) === undefined);
      return refused(signatureProblem(headers, repeated ?? "X-Gitea-Signature"));
    }
    const expected = secrets.map((secret) => createHmac("sha256", secret).update(body).digest("hex"));
    if (signatures.every((signature) => signatureFitsAny(signature ?? "", expected))) return genuine;
    // Such a webhook signs the JSON inside the form, not the body that it sends.
    if (/^application\/x-www-form-urlencoded\b/i.test(findHeader(headers, "content-type") ?? "")) {
      return refused("Set the webhook's content type to application/json: a form cannot be verified.");
    }
    return refused("The signature does not match: compare the webhook's secret with the configured ones.");
  }

  function parse(headers: DeliveryHeaders, body: Buffer): GitEvent {
    const origin = { forge: id, delivery: deliveryId(headers, ["x-gitea-delivery", "x-forgejo-delivery"], body) };
    const json = parseJson(body.toString("utf8"));
    if (json === undefined) return irrelevant(origin, "the body is not JSON");
    const event = findHeader(headers, "x-gitea-event") ?? findHeader(headers, "x-forgejo-event");
    switch (event) {
      case "push":
        return toPushEvent(origin, json.value);
      case "delete":
        return toDeleteEvent(origin, json.value);
      case "pull_request":
        return toPullRequestEvent(origin, json.value);
      case "create":
        return irrelevant(origin, "the push event reports the same as create");
      default:
        return irrelevant(origin, `${quoted(event)} events are ignored`);
    }
  }

  return { id, kind: "gitea", verify, parse };
}

type Origin = Pick<GitEvent, "forge" | "delivery">;

/**
 * The list is cut to the newest few commits (FEED_MAX_COMMIT_NUM, five), which `total_commits` reveals. Nothing reveals
 * a forced push: paths that only the dropped commits had touched are missed here, and left to the sweep.
 */
function toPushEvent(origin: Origin, payload: unknown): GitEvent {
  const { data: push, error } = Push.safeParse(payload);
  if (error) return misshapen(origin, "push", error);
  const problem = refProblem(push.ref);
  if (problem !== undefined) return irrelevant(origin, problem);
  return {
    ...origin,
    kind: "push",
    ...toRepository(push.repository),
    sender: push.sender?.login,
    ...toPushChange({
      ...push,
      commit: push.head_commit?.id,
      listsAll: push.total_commits !== undefined && push.total_commits <= (push.commits?.length ?? 0),
    }),
  };
}

/** A deleted branch is sent as `delete` only, a deleted tag additionally as `push`; here `ref` is the short name. */
function toDeleteEvent(origin: Origin, payload: unknown): GitEvent {
  const { data, error } = Delete.safeParse(payload);
  if (error) return misshapen(origin, "delete", error);
  return {
    ...origin,
    kind: "push",
    ...toRepository(data.repository),
    ref: `refs/${data.ref_type === "branch" ? "heads" : "tags"}/${data.ref}`,
    change: "deleted",
    changed: { complete: false, paths: [] },
  };
}

function toPullRequestEvent(origin: Origin, payload: unknown): GitEvent {
  const { data, error } = PullRequest.safeParse(payload);
  if (error) return misshapen(origin, "pull_request", error);
  const { head, base } = data.pull_request;
  const { repoUrls, repoName } = toRepository(data.repository);
  return {
    ...origin,
    kind: "pull-request",
    repoUrls,
    repoName,
    number: data.number,
    action: data.action === "edited" ? toEdit(data) : (actions.get(data.action) ?? "other"),
    baseBranch: base.ref,
    head: head.sha,
    fork: originOf(data.pull_request).fork,
  };
}

/** The beginning of the title makes a draft: the title is edited when a pull request becomes a draft, or ready. */
function toEdit({ changes, pull_request }: z.infer<typeof PullRequest>): PullRequestEvent["action"] {
  if (changes?.ref !== undefined) return "retargeted";
  const from = changes?.title?.from;
  if (from === undefined) return "other";
  const { title, draft } = pull_request;
  // Draft marks can be configured on the host: a title that only lost its beginning may have lost such a mark.
  const wasDraft = draftMark.test(from) || (draft === false && title !== undefined && from.endsWith(title));
  return wasDraft === (draft ?? draftMark.test(title ?? "")) ? "other" : "draft-changed";
}

/** The default marks of Gitea and Forgejo. */
const draftMark = /^\s*(?:(?:wip|draft):|\[wip\])/i;

function toRepository(repository: z.infer<typeof Repository>) {
  return {
    repoUrls: distinctUrls(repository.clone_url, repository.ssh_url, repository.html_url),
    repoName: repository.full_name,
    defaultBranch: repository.default_branch,
  };
}
