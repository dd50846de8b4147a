/** Filters the page's data to the namespaces that a user can see. Pure. */
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { Trace } from "../views/trace.ts";
import type { Access } from "./access.ts";
import type { ShownChildren, ShownReport } from "../views/show-report.ts";
import type { PageForge, PagePullRequest, PageQueue } from "./facts.ts";

/** Whether the user can see deployments of this namespace. */
export type Sees = (namespace: string) => boolean;

/** Called once for each request. Throws a RequestError if it cannot be determined. */
export type FindSight = (caller: Access) => Promise<Sees>;

export const seesAll: Sees = () => true;

/**
 * `namespace/name`. What Flux applies has a kind before it, and may be in any namespace: users who see only some do not see it.
 */
const seesKey = (sees: Sees) => (deployment: string) =>
  !deployment.includes(" ") && sees(deployment.split("/", 1)[0] ?? "");

/** Keeps deliveries that affect visible deployments, reduced to those deployments. */
export function limitForges(forges: readonly PageForge[], sees: Sees): readonly PageForge[] {
  if (sees === seesAll) return forges;
  // Repositories do not belong to a namespace.
  return forges.map(({ missed: _, sweeps: _sweeps, ...forge }) => ({
    ...forge,
    deliveries: limitDeliveries(forge.deliveries, sees),
  }));
}

function limitDeliveries(deliveries: readonly DeliveryRecord[], sees: Sees): DeliveryRecord[] {
  const isSeen = seesKey(sees);
  // Who may see deployments of a namespace may not be allowed to see its GitRepositories.
  return deliveries.flatMap(({ fluxSources: _, repos: _repos, ...delivery }) => {
    const deployments = delivery.deployments.filter(isSeen);
    const ignored = delivery.ignored.filter(({ deployment }) => isSeen(deployment));
    const including = delivery.including?.filter(isSeen);
    if (deployments.length + ignored.length + (including?.length ?? 0) === 0) return [];
    return {
      ...delivery,
      deployments,
      ...(including && { including }),
      ignored,
      matched: deployments.length,
      ignoredMore: 0,
    };
  });
}

export function limitPullRequests<Shown extends Pick<PagePullRequest, "previews">>(
  pullRequests: readonly Shown[],
  sees: Sees,
): readonly Shown[] {
  if (sees === seesAll) return pullRequests;
  const isSeen = seesKey(sees);
  return pullRequests.flatMap((pullRequest) => {
    const previews = pullRequest.previews.filter(({ deployment }) => isSeen(deployment));
    // The summary of the whole pull request would include hidden deployments.
    return previews.length === 0 ? [] : { ...pullRequest, previews, verdict: "" };
  });
}

/** Returns `undefined` if the user sees none of its deployments. */
export function limitReport(report: ShownReport, sees: Sees): ShownReport | undefined {
  if (sees === seesAll) return report;
  const isSeen = seesKey(sees);
  const previews = report.previews
    .filter(({ deployment }) => isSeen(deployment))
    .map(({ sameAs, ...preview }) => (sameAs !== undefined && isSeen(sameAs) ? { ...preview, sameAs } : preview));
  if (previews.length === 0) return undefined;
  // All of these are about the pull request as a whole, which includes hidden deployments.
  const earlier = report.earlier.map((one) => ({ ...one, verdict: "" }));
  const uncounted = report.uncounted.map((one) => ({ ...one, title: "" }));
  const children = report.children && limitChildren(report.children, isSeen);
  const hidden = { verdict: "", attention: "quiet", notes: [], leftOut: undefined } as const;
  return { ...report, ...hidden, previews, uncounted, children, earlier };
}

/** Returns `undefined` if the user sees none of them. A child is seen by users who see its parent as well. */
function limitChildren(children: ShownChildren, isSeen: (deployment: string) => boolean): ShownChildren | undefined {
  const isShown = (one: { readonly parent: string; readonly deployment: string }) =>
    isSeen(one.parent) && isSeen(one.deployment);
  const [previews, unshown] = [children.previews.filter(isShown), children.unshown.filter(isShown)];
  // The number of the others includes hidden ones.
  return previews.length + unshown.length === 0 ? undefined : { ...children, title: "", previews, unshown, beyond: 0 };
}

/** Jobs of pull requests and commits do not belong to a namespace. */
export function limitQueue({ lanes, jobs }: PageQueue, sees: Sees): PageQueue {
  if (sees === seesAll) return { lanes, jobs };
  const isSeen = seesKey(sees);
  const [kind, seen] = ["reconcile:", jobs.filter(({ subject }) => subject.startsWith("reconcile:"))];
  return { lanes, jobs: seen.filter(({ subject }) => isSeen(subject.slice(kind.length))) };
}

export function limitTrace(trace: Trace, sees: Sees): Trace {
  if (sees === seesAll) return trace;
  const isSeen = seesKey(sees);
  const limited = {
    ...trace,
    deliveries: limitDeliveries(trace.deliveries, sees),
    deployments: trace.deployments.filter(({ deployment }) => isSeen(deployment)),
    ignored: trace.ignored.filter(({ deployment }) => isSeen(deployment)),
    pullRequests: limitPullRequests(trace.pullRequests, sees),
  };
  const knows = [limited.deliveries, limited.deployments, limited.pullRequests].some((list) => list.length > 0);
  return knows ? limited : { ...limited, commit: undefined, within: undefined };
}
