/** A notification as targets get it: a message, with facts and links about its commit. */
import { followsGit, type GitDeployment, type NoticeLink, type Notification } from "../../model.ts";
import { plural } from "../../preview/summary.ts";
import type { NotifyStep, StepMessage } from "./planning.ts";

export interface NotificationDeps {
  /** With the login of that deployment, so that nobody learns more than what the deployment may read. */
  readonly describeCommit: (deployment: GitDeployment, commit: string) => Promise<CommitWords>;
  /** Public address of the page, without a slash at its end; `undefined`: none is known. */
  readonly pageUrl: () => string | undefined;
  readonly clusterName: () => Promise<string>;
}

/** What a message says about a commit; all of it may be unknown. */
export interface CommitWords {
  readonly title?: string | undefined;
  readonly author?: string | undefined;
  readonly url?: string | undefined;
  readonly pullRequest?: { readonly label: string; readonly url: string } | undefined;
}

/** What is sent for these steps, with what can be learned of the commit. */
export async function toNotification(
  message: StepMessage,
  steps: readonly NotifyStep[],
  deps: NotificationDeps,
): Promise<Notification> {
  const { id, state, kind, severity, title, lines, linesLeftOut, succeeded, at, notice, object } = message;
  const { commit } = notice ?? {};
  const follower = notice?.deployments.find((one) => followsGit(one));
  const said = follower && commit ? await deps.describeCommit(follower, commit) : {};
  const facts = [
    ...(commit ? [{ label: "Commit", value: [commit.slice(0, 7), said.title].filter(Boolean).join(" ") }] : []),
    ...(said.author ? [{ label: "Author", value: said.author }] : []),
    ...(succeeded > 0 ? [{ label: "Succeeded", value: plural(succeeded, "deployment") }] : []),
  ];
  const links = [
    ...(said.url ? [{ label: "Commit", url: said.url }] : []),
    ...(said.pullRequest ? [said.pullRequest] : []),
    ...(notice?.url ? [{ label: "Pull request", url: notice.url }] : []),
    ...linkToPage(deps.pageUrl(), message),
  ];
  return {
    ...{ id, state, kind, severity, title, lines, linesLeftOut, facts, links, at },
    thread: steps.length === 1 ? (steps[0]?.key ?? id) : id,
    object,
    cluster: await deps.clusterName(),
  };
}

/** Where the page shows it: a commit in all its deployments, or the deployment that needs somebody. */
function linkToPage(pageUrl: string | undefined, { notice, kind }: StepMessage): NoticeLink[] {
  if (pageUrl === undefined || notice === undefined) return [];
  const [first, ...others] = notice.deployments;
  if (kind === "webhooks") return [{ label: "Deliveries", url: `${pageUrl}/#/deliveries` }];
  if (kind === "preview") return [{ label: "Pull requests", url: `${pageUrl}/#/pull-requests` }];
  if (kind === "deploy" && notice.commit !== undefined && others.length > 0)
    return [{ label: "Rollout", url: `${pageUrl}/#/commit/${encodeURIComponent(notice.commit)}` }];
  const path = others.length === 0 && first ? `/${first.key.namespace}/${first.key.name}` : "";
  return [{ label: path === "" ? "Deployments" : "Deployment", url: `${pageUrl}/#/deployments${path}` }];
}
