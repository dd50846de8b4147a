/** GitLab's deliveries: https://docs.gitlab.com/user/project/integrations/webhook_events/ */
import { z } from "zod";
import type { Clock } from "../../ports.ts";
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
import { type WebhookSource, type WebhookSourceOptions } from "../webhook-source.ts";
import { createGitlabVerifier } from "./verify.ts";

const Project = z.object({
  path_with_namespace: Name,
  default_branch: lenient(Name),
  git_http_url: MaybeUrl,
  git_ssh_url: MaybeUrl,
  web_url: MaybeUrl,
});

const Push = z.object({
  ref: Name,
  before: Commit,
  after: Commit,
  checkout_sha: lenient(Commit),
  commits: Commits,
  total_commits_count: lenient(z.int()),
  user_username: lenient(Name),
  project: Project,
});

const MergeRequest = z.object({
  object_attributes: z.object({
    iid: z.int().positive(),
    action: lenient(Name),
    target_branch: Name,
    source_project_id: lenient(z.int()),
    target_project_id: z.int(),
    last_commit: z.object({ id: Commit }),
    oldrev: lenient(Commit),
  }),
  changes: lenient(
    z.object({
      target_branch: z.unknown().optional(),
      draft: z.unknown().optional(),
      title: lenient(z.object({ previous: lenient(z.string()), current: lenient(z.string()) })),
    }),
  ),
  project: Project,
});

/** Project and group hooks name their kind in `object_kind`, system hooks in `event_name`. */
const Kind = z.object({ object_kind: lenient(Name), event_name: lenient(Name) });

const actions = new Map<string, PullRequestEvent["action"]>([
  ["open", "opened"],
  ["reopen", "reopened"],
  ["close", "closed"],
  ["merge", "closed"],
]);

/** Idempotency-Key stays the same over retries; the event's UUID is shared by all hooks that deliver the event. */
const idHeaders = ["idempotency-key", "webhook-id", "x-gitlab-event-uuid"];

export function createGitlabSource(options: WebhookSourceOptions & { readonly clock: Clock }): WebhookSource {
  const { id } = options;
  return {
    id,
    kind: "gitlab",
    verify: createGitlabVerifier(options),
    parse(headers, body) {
      const origin = { forge: id, delivery: deliveryId(headers, idHeaders, body) };
      const json = parseJson(body.toString("utf8"));
      if (json === undefined) return irrelevant(origin, "the body is not JSON");
      const { data: names } = Kind.safeParse(json.value);
      const event = names?.object_kind ?? names?.event_name;
      switch (event) {
        case "push":
        case "tag_push":
          return toPushEvent(origin, json.value);
        case "merge_request":
          return toMergeRequestEvent(origin, json.value);
        default:
          return irrelevant(origin, `${quoted(event)} events are ignored`);
      }
    },
  };
}

type Origin = Pick<GitEvent, "forge" | "delivery">;

/**
 * The list is cut to the newest 20 commits, which `total_commits_count` reveals. Nothing reveals a forced push: paths
 * that only the dropped commits had touched are missed here, and left to the sweep.
 */
function toPushEvent(origin: Origin, payload: unknown): GitEvent {
  const { data: push, error } = Push.safeParse(payload);
  if (error) return misshapen(origin, "push", error);
  const problem = refProblem(push.ref);
  if (problem !== undefined) return irrelevant(origin, problem);
  return {
    ...origin,
    kind: "push",
    repoUrls: projectUrls(push.project),
    repoName: push.project.path_with_namespace,
    defaultBranch: push.project.default_branch,
    sender: push.user_username,
    ...toPushChange({
      ...push,
      commit: push.checkout_sha,
      listsAll: push.total_commits_count !== undefined && push.total_commits_count <= (push.commits?.length ?? 0),
    }),
  };
}

function toMergeRequestEvent(origin: Origin, payload: unknown): GitEvent {
  const { data, error } = MergeRequest.safeParse(payload);
  if (error) return misshapen(origin, "merge_request", error);
  const { object_attributes: request, project } = data;
  return {
    ...origin,
    kind: "pull-request",
    repoUrls: projectUrls(project),
    repoName: project.path_with_namespace,
    number: request.iid,
    action: toAction(data),
    baseBranch: request.target_branch,
    head: request.last_commit.id,
    fork: request.source_project_id !== request.target_project_id,
  };
}

/** `update` stands for any edit: `oldrev` is set if commits were pushed; otherwise `changes` names the fields. */
function toAction({ object_attributes: request, changes }: z.infer<typeof MergeRequest>): PullRequestEvent["action"] {
  if (request.action !== "update") return actions.get(request.action ?? "") ?? "other";
  if (request.oldrev !== undefined) return "updated";
  if (changes?.target_branch !== undefined) return "retargeted";
  const { previous = "", current = "" } = changes?.title ?? {};
  const marked = draftMark.test(previous) !== draftMark.test(current);
  return changes?.draft !== undefined || marked ? "draft-changed" : "other";
}

/** The title makes a draft, and it is all that an older GitLab reports about the change. */
const draftMark = /^\s*(?:(?:draft|wip):|\[(?:draft|wip)\]|\(draft\))/i;

function projectUrls(project: z.infer<typeof Project>): string[] {
  return distinctUrls(project.git_http_url, project.git_ssh_url, project.web_url);
}
