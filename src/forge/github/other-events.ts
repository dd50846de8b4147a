/** Understands GitHub's deliveries other than pushes, and pushes to the branches of its merge queue. */
import { z } from "zod";
import { type GitEvent, type PullRequestEvent, parseQueueBranch } from "../../model.ts";
import { Commit, irrelevant, lenient, misshapen, Name, quoted } from "../payload.ts";
import { type Origin, Repository, repositoryOf } from "./repository.ts";

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

interface QueuePush {
  readonly before: string;
  readonly after: string;
  readonly repository: z.infer<typeof Repository>;
}

export function toPullRequestEvent(origin: Origin, payload: unknown): GitEvent {
  const { data, error } = PullRequest.safeParse(payload);
  if (error) return misshapen(origin, "pull_request", error);
  const { head, base } = data.pull_request;
  const retargeted = data.action === "edited" && data.changes?.base !== undefined;
  return {
    ...origin,
    kind: "pull-request",
    ...repositoryOf(data.repository),
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
export function toQueuePush(origin: Origin, push: QueuePush, branch: string): GitEvent {
  const { before, after, repository } = push;
  const ended = /^0+$/.test(after);
  const named = parseQueueBranch(branch);
  if (named === undefined)
    return irrelevant(origin, "the branch belongs to a merge queue, and its name has an unknown format");
  return {
    ...origin,
    kind: "merge-group",
    ...repositoryOf(repository),
    commit: ended ? before : after,
    branch,
    base: named.base,
    ended,
  };
}

export function toMergeGroupEvent(origin: Origin, payload: unknown): GitEvent {
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
    ...repositoryOf(repository),
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
export function toRerunEvent(
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
    ...repositoryOf(repository),
    commit: checked.head_sha,
  };
}
