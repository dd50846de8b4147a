/**
 * A delivery as it is recorded for `towline replay`: what matching needs, and nothing else of the payload. The schemas are
 * lists of allowed fields, which keeps names of accounts, e-mail addresses, messages and tokens out of records.
 */
import { z } from "zod";
import type { GitEvent, PushEvent } from "./forge.ts";
import { parseRepoUrl } from "./repo-url.ts";

const name = z.string().max(2_000);
const commit = z.string().regex(/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/i);
const repo = { repoUrls: z.array(name).max(20), repoName: name };

const Push = z.object({
  kind: z.literal("push"),
  ...repo,
  ref: name,
  change: z.enum(["created", "updated", "deleted"]),
  after: commit.optional(),
  defaultBranch: name.optional(),
  /** Absent: any path may have changed. */
  paths: z.array(z.string()).optional(),
  /** The paths were too many to be recorded. */
  pathsOmitted: z.literal(true).optional(),
});

const PullRequest = z.object({
  kind: z.literal("pull-request"),
  ...repo,
  number: z.int(),
  action: z.enum(["opened", "updated", "reopened", "retargeted", "closed", "draft-changed", "other"]),
  baseBranch: name,
  head: commit,
  fork: z.boolean(),
});

const MergeGroup = z.object({
  kind: z.literal("merge-group"),
  ...repo,
  commit,
  branch: name,
  base: name,
  ended: z.boolean(),
});

const AnyEvent = z.discriminatedUnion("kind", [Push, PullRequest, MergeGroup]);
export type RecordedEvent = z.infer<typeof AnyEvent>;

/** The encrypted content of a record. */
export const RecordedContent = z.object({
  v: z.literal(1),
  /** Kind of the git host. */
  host: z.enum(["github", "gitlab", "gitea"]),
  event: AnyEvent,
});
export type RecordedContent = z.infer<typeof RecordedContent>;

/** What a record shows without its key, and what its content is bound to. */
export interface RecordedIdentity {
  /** Id of the configured forge. */
  readonly forge: string;
  /** The host's id of the delivery. */
  readonly delivery: string;
  /** When it arrived, in epoch milliseconds. */
  readonly at: number;
}

export interface RecordedDelivery extends RecordedIdentity, Omit<RecordedContent, "v"> {}

/** In letters, for all paths of a push: more than this is not recorded. */
const mostPathLetters = 100_000;

/** `undefined` for events that no configuration would match, and for those that do not fit into a record. */
export function toRecordedEvent(event: GitEvent): RecordedEvent | undefined {
  if (event.kind === "ping" || event.kind === "irrelevant") return undefined;
  const repoUrls = [...new Set(event.repoUrls.flatMap((url) => bareUrl(url) ?? []))];
  const paths = event.kind === "push" ? toPaths(event.changed) : {};
  return AnyEvent.safeParse({ ...event, repoUrls, ...paths }).data;
}

/** The event as it would be parsed again, as far as matching can see. */
export function toGitEvent({ event, forge, delivery }: RecordedDelivery): GitEvent {
  if (event.kind !== "push") return { ...event, forge, delivery };
  const { paths, pathsOmitted: _omitted, ...push } = event;
  return { ...push, forge, delivery, changed: { complete: paths !== undefined, paths: paths ?? [] } };
}

function toPaths({ complete, paths }: PushEvent["changed"]): Partial<RecordedEvent> {
  if (!complete) return {};
  let letters = 0;
  for (const path of paths) letters += path.length;
  return letters > mostPathLetters ? { pathsOmitted: true } : { paths: [...paths] };
}

/** The same repository by host and path only: without a login, a query or a fragment. */
function bareUrl(url: string): string | undefined {
  const parsed = parseRepoUrl(url);
  if (parsed === undefined) return undefined;
  const path = parsed.path.split("/").map(encodeURIComponent).join("/");
  return `${parsed.protocol}//${parsed.hostAndPort}/${path}`;
}
