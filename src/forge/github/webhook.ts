/**
 * Step 2 of a push: checks GitHub's signature over the raw bytes, and turns the payload into a `GitEvent`. From here
 * on, nothing knows which host sent it. Next: src/intake/intake.ts.
 *
 * https://docs.github.com/webhooks/webhook-events-and-payloads
 */
import { isUtf8 } from "node:buffer";
import { Webhooks } from "@octokit/webhooks";
import { z } from "zod";
import { type GitEvent, isQueueBranch } from "../../model.ts";
import {
  Commit,
  Commits,
  Name,
  deliveryId,
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
import { toMergeGroupEvent, toPullRequestEvent, toQueuePush, toRerunEvent } from "./other-events.ts";
import { type Origin, Repository, repositoryOf } from "./repository.ts";

/** A push lists at most this many commits, and a commit this many files; at the limit there may be more. */
const maxCommits = 2_048;
const maxFilesPerCommit = 3_000;

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
    ...repositoryOf(repository),
    defaultBranch: repository.default_branch,
    sender: push.sender?.login,
    ...toPushChange({ ...push, commit: push.head_commit?.id, listsAll: !push.forced && !truncated }),
  };
}

/** Returns the JSON, also for a webhook that has GitHub's default content type, the form. */
function payloadText(headers: DeliveryHeaders, body: Buffer): string {
  const text = body.toString("utf8");
  const form = /^application\/x-www-form-urlencoded\b/i.test(findHeader(headers, "content-type") ?? "");
  return form ? (new URLSearchParams(text).get("payload") ?? "") : text;
}
