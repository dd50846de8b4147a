/** GitHub's deliveries: https://docs.github.com/webhooks/webhook-events-and-payloads */
import { isUtf8 } from "node:buffer";
import { Webhooks } from "@octokit/webhooks";
import { z } from "zod";
import { type GitEvent, type PullRequestEvent, isQueueBranch, parseQueueBranch } from "../../model.ts";
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

/** A push lists at most this many commits, and a commit this many files; at the limit there may be more. */
const maxCommits = 2_048;
const maxFilesPerCommit = 3_000;

const Repository = z.object({
  full_name: Name,
  default_branch: lenient(Name),
  clone_url: MaybeUrl,
  ssh_url: MaybeUrl,
  git_url: MaybeUrl,
  html_url: MaybeUrl,
});

const Push = z.object({
  ref: Name,
  before: Commit,
  after: Commit,
  forced: z.boolean().catch(true),
  commits: Commits,
  head_commit: lenient(z.object({ id: Commit })),
  sender: lenient(z.object({ login: Name })),
  repository: Repository,
});

const PullRequest = z.object({
  action: Name,
  number: z.int().positive(),
  pull_request: z.object({
    head: z.object({ sha: Commit, repo: z.object({ id: z.int() }).nullish() }),
    base: z.object({ ref: Name, repo: z.object({ id: z.int() }) }),
  }),
  changes: lenient(z.object({ base: z.unknown().optional() })),
  repository: Repository,
});

const MergeGroup = z.object({
  action: z.enum(["checks_requested", "destroyed"]),
  merge_group: z.object({ head_sha: Commit, head_ref: Name, base_sha: Commit }),
  repository: Repository,
});

const Checked = z.object({
  head_sha: Commit,
  app: z.object({ id: z.int(), client_id: lenient(Name) }),
});

/** The event of a check run, and of all runs of a commit. */
const Checks = {
  check_run: z.object({ check_run: Checked, repository: Repository }).transform(({ check_run, ...rest }) => ({
    ...rest,
    checked: check_run,
  })),
  check_suite: z.object({ check_suite: Checked, repository: Repository }).transform(({ check_suite, ...rest }) => ({
    ...rest,
    checked: check_suite,
  })),
};

const Action = z.object({ action: z.string() });

const actions = new Map<string, PullRequestEvent["action"]>([
  ["opened", "opened"],
  ["synchronize", "updated"],
  ["reopened", "reopened"],
  ["closed", "closed"],
  ["converted_to_draft", "draft-changed"],
  ["ready_for_review", "draft-changed"],
]);

/**
 * Events that change something here and that no sweep replaces within a minute: after a failed delivery GitHub is asked
 * for another one. Pushes and pull requests are found by their sweeps, and whoever pressed a button presses it again.
 */
export const unsweptEvents: ReadonlySet<string> = new Set(["merge_group"]);

export function createGithubSource({ id, secrets, allowUnsigned, appId }: WebhookSourceOptions): WebhookSource {
  const verifiers = secrets.map((secret) => new Webhooks({ secret }));

  async function verify(headers: DeliveryHeaders, body: Buffer): Promise<Verification> {
    // Gitea and Forgejo also send GitHub's headers, including the signature, but their payloads only look similar.
    if ([...headers.keys()].some((name) => /^x-(gitea|forgejo|gogs)-/.test(name))) {
      return refused("This delivery comes from Gitea or Forgejo: configure the forge with `kind: gitea`.");
    }
    if (secrets.length === 0 && allowUnsigned) return genuine;
    const signature = findHeader(headers, "x-hub-signature-256");
    if (signature === undefined) return refused(signatureProblem(headers, "X-Hub-Signature-256"));
    // The verifier takes text: bytes that are not UTF-8 would be replaced before verification. It throws on "".
    if (body.length > 0 && isUtf8(body)) {
      const text = body.toString("utf8");
      for (const verifier of verifiers) if (await verifier.verify(text, signature)) return genuine;
    }
    return refused("The signature does not match: compare the webhook's secret with the configured ones.");
  }

  function parse(headers: DeliveryHeaders, body: Buffer): GitEvent {
    const origin = { forge: id, delivery: deliveryId(headers, ["x-github-delivery"], body) };
    const json = parseJson(payloadText(headers, body));
    if (json === undefined) return irrelevant(origin, "the body is not JSON");
    const event = findHeader(headers, "x-github-event");
    switch (event) {
      case "ping":
        return { ...origin, kind: "ping" };
      case "push":
        return toPushEvent(origin, json.value);
      case "pull_request":
        return toPullRequestEvent(origin, json.value);
      case "merge_group":
        return toMergeGroupEvent(origin, json.value);
      case "check_run":
      case "check_suite":
        return toRerunEvent(origin, event, json.value, appId);
      case "create":
      case "delete":
        return irrelevant(origin, `the push event reports the same as ${event}`);
      default:
        return irrelevant(origin, `${quoted(event)} events are ignored`);
    }
  }

  return { id, kind: "github", verify, parse };
}

type Origin = Pick<GitEvent, "forge" | "delivery">;

function toPushEvent(origin: Origin, payload: unknown): GitEvent {
  const { data: push, error } = Push.safeParse(payload);
  if (error) return misshapen(origin, "push", error);
  const problem = refProblem(push.ref);
  if (problem !== undefined) return irrelevant(origin, problem);
  const { repository } = push;
  const branch = push.ref.replace(/^refs\/heads\//, "");
  if (isQueueBranch(branch)) return toQueuePush(origin, push, branch);
  const truncated =
    (push.commits ?? []).length >= maxCommits ||
    (push.commits ?? []).some(
      ({ added, modified, removed }) =>
        (added?.length ?? 0) + (modified?.length ?? 0) + (removed?.length ?? 0) >= maxFilesPerCommit,
    );
  return {
    ...origin,
    kind: "push",
    repoUrls: repositoryUrls(repository),
    repoName: repository.full_name,
    defaultBranch: repository.default_branch,
    sender: push.sender?.login,
    ...toPushChange({ ...push, commit: push.head_commit?.id, listsAll: !push.forced && !truncated }),
  };
}

function toPullRequestEvent(origin: Origin, payload: unknown): GitEvent {
  const { data, error } = PullRequest.safeParse(payload);
  if (error) return misshapen(origin, "pull_request", error);
  const { head, base } = data.pull_request;
  const retargeted = data.action === "edited" && data.changes?.base !== undefined;
  return {
    ...origin,
    kind: "pull-request",
    repoUrls: repositoryUrls(data.repository),
    repoName: data.repository.full_name,
    number: data.number,
    action: retargeted ? "retargeted" : (actions.get(data.action) ?? "other"),
    baseBranch: base.ref,
    head: head.sha,
    // A deleted fork has no repository.
    fork: head.repo?.id !== base.repo.id,
  };
}

/**
 * GitHub sends `merge_group` to Apps, and a push to the queue's branch to all webhooks. Such a branch belongs to the
 * merge queue: no deployment follows it.
 */
function toQueuePush(origin: Origin, push: z.infer<typeof Push>, branch: string): GitEvent {
  const { before, after, repository } = push;
  const ended = /^0+$/.test(after);
  const named = parseQueueBranch(branch);
  if (named === undefined)
    return irrelevant(origin, "the branch belongs to a merge queue, and its name has an unknown format");
  return {
    ...origin,
    kind: "merge-group",
    repoUrls: repositoryUrls(repository),
    repoName: repository.full_name,
    commit: ended ? before : after,
    branch,
    base: named.base,
    ended,
  };
}

function toMergeGroupEvent(origin: Origin, payload: unknown): GitEvent {
  const { data, error } = MergeGroup.safeParse(payload);
  if (error) return misshapen(origin, "merge_group", error);
  const { action, merge_group: group, repository } = data;
  const branch = group.head_ref.replace(/^refs\/heads\//, "");
  if (parseQueueBranch(branch) === undefined) {
    return irrelevant(origin, `${quoted(group.head_ref)} is not the name of a merge queue's branch`);
  }
  return {
    ...origin,
    kind: "merge-group",
    repoUrls: repositoryUrls(repository),
    repoName: repository.full_name,
    commit: group.head_sha,
    branch,
    base: group.base_sha,
    ended: action === "destroyed",
  };
}

/**
 * The button "Re-run". Apps that may write check runs receive these events without a subscription, also for each run that
 * they write themselves.
 */
function toRerunEvent(
  origin: Origin,
  event: keyof typeof Checks,
  payload: unknown,
  appId: string | undefined,
): GitEvent {
  if (Action.safeParse(payload).data?.action !== "rerequested") {
    return irrelevant(origin, `of ${event} events, only requests to run again matter`);
  }
  const { data, error } = Checks[event].safeParse(payload);
  if (error) return misshapen(origin, event, error);
  const { checked, repository } = data;
  const isOwn = appId !== undefined && [String(checked.app.id), checked.app.client_id].includes(appId);
  if (!isOwn) return irrelevant(origin, `the ${event} belongs to another App than the configured one`);
  return {
    ...origin,
    kind: "rerun",
    repoUrls: repositoryUrls(repository),
    repoName: repository.full_name,
    commit: checked.head_sha,
  };
}

function repositoryUrls(repository: z.infer<typeof Repository>): string[] {
  return distinctUrls(repository.clone_url, repository.ssh_url, repository.git_url, repository.html_url);
}

/** Returns the JSON, also for a webhook that has GitHub's default content type, the form. */
function payloadText(headers: DeliveryHeaders, body: Buffer): string {
  const text = body.toString("utf8");
  const form = /^application\/x-www-form-urlencoded\b/i.test(findHeader(headers, "content-type") ?? "");
  return form ? (new URLSearchParams(text).get("payload") ?? "") : text;
}
