/** Performs the page's actions: as the user in the cluster, with the same patches as the command line. */
import { randomUUID } from "node:crypto";
import type { Deliveries } from "../redis/deliveries.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import type { Access } from "../web/access.ts";
import { type PageActions, type Possible, type PossibleActions, whyNotOperator } from "../web/writes.ts";
import type { FindSight } from "../web/sight.ts";
import type { PageConfig } from "../config.ts";
import { ApiError, RequestError } from "../errors.ts";
import type { Accept } from "../intake/intake.ts";
import { approvePatch, askingManager, type DeploymentApi, groupOf, resourcePath, suspendPatch } from "../apis/api.ts";
import { apiOf } from "../apis/apis.ts";
import type { KubeClient, KubeRequest } from "../kube/client.ts";
import type { WatchedDeployments } from "../apis/deployments.ts";
import {
  type Deployment,
  followsGit,
  type GitEvent,
  type Key,
  type MalformedDeployment,
  type Request,
} from "../model.ts";
import { reposOf } from "../intake/match.ts";
import { type Action, actions, objectionTo, pendingHash } from "../requests/actions.ts";
import type { Clock } from "../ports.ts";

export interface PageActionsDeps {
  readonly deployments: Pick<WatchedDeployments, "find" | "get" | "all" | "tracking" | "including">;
  readonly client: Pick<KubeClient, "request">;
  readonly accept: Accept;
  readonly deliveries: Pick<Deliveries, "event">;
  readonly queue: Pick<JobQueue, "retryFailed">;
  /** The identity for requests to the cluster. */
  readonly mapping: Mapping;
  /** The namespaces that the user can see. */
  readonly sight: FindSight;
  readonly clock: Clock;
}

export type Mapping = Pick<PageConfig, "actAs" | "userPrefix" | "groupPrefix" | "viewerGroups" | "operatorGroups">;

/** The cluster user for requests with the page token. */
const tokenUser = "towline:page-token";
/** Statuses change often: after a conflict, the pending change is checked again. */
const mostTries = 5;

export function createPageActions(deps: PageActionsDeps): PageActions {
  const { deployments, client, accept, deliveries, queue, mapping, sight, clock } = deps;

  async function mayPatch(key: Key, api: DeploymentApi, as: As): Promise<string | undefined> {
    const { namespace, name } = key;
    const resource = { verb: "patch", group: groupOf(api), resource: "kluctldeployments", namespace };
    const spec = { resourceAttributes: name === "" ? resource : { ...resource, name } };
    const answer = (await ask(as, {
      method: "POST",
      path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
      body: { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec },
      totalMs: 0,
    })) as { status?: { allowed?: boolean } };
    if (answer.status?.allowed === true) return undefined;
    return `${as.as ?? "The server"} is not allowed to patch KluctlDeployments in ${key.namespace}.`;
  }

  async function ask(as: As, request: Omit<KubeRequest, "as" | "asGroups">): Promise<unknown> {
    try {
      return await client.request({ ...request, ...as });
    } catch (error) {
      throw error instanceof ApiError ? explain(error, as) : error;
    }
  }

  return {
    async possible(key, caller) {
      const deployment = deployments.find(key);
      if (deployment === undefined) throw gone();
      const [refusal] =
        caller.role === "operator"
          ? [await refusalOf(() => refuseInCluster(deployment, caller))]
          : whyNotOperator(caller);
      const hash = pendingHash(deployment);
      const each = actions.map((action): [Action, Possible] => {
        const why = refusal ?? objection(action, deployment);
        const shown = action === "approve" && hash !== undefined ? { hash } : {};
        return [action, why === undefined ? { may: true, ...shown } : { may: false, why, ...shown }];
      });
      return Object.fromEntries(each) as PossibleActions;
    },

    async act(key, { action, hash }, caller, onRequest) {
      const as = asWhom(caller, mapping);
      const request = isRequest(action) ? randomUUID() : undefined;
      onRequest({ request, actedAs: as.as });
      for (let tries = 1; ; tries++) {
        // Read from the API server, since the watch may be behind: the approved change must be the one that the user saw.
        const deployment = await deployments.get(key).catch((error: unknown) => {
          throw error instanceof ApiError ? explain(error, {}) : error;
        });
        if (deployment === undefined) throw gone();
        const why = objection(action, deployment) ?? (action === "approve" ? staleness(deployment, hash) : undefined);
        if (why !== undefined) throw new RequestError(409, why);
        try {
          await client.request({
            method: "PATCH",
            path: resourcePath(apiOf(deployment), key),
            query: { fieldManager: askingManager },
            body: patchFor(action, deployment, request ?? ""),
            ...as,
          });
          return;
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          if (error.status !== 409 || tries >= mostTries) throw explain(error, as);
        }
      }
    },

    async replay(forge, delivery, caller, onRequest) {
      const as = asWhom(caller, mapping);
      onRequest({ actedAs: as.as });
      const event = await deliveries.event(forge, delivery);
      if (event === undefined)
        throw new RequestError(
          404,
          "This delivery cannot be replayed.",
          "It is no longer stored, failed verification, or contained nothing to process. Redeliver it from the git host.",
        );
      await mayAskAll(concernedBy(event), caller, as);
      return accept(event);
    },

    async retry(lane, subject, caller, onRequest) {
      const as = asWhom(caller, mapping);
      onRequest({ actedAs: as.as });
      const retried = await queue.retryFailed(lane, subject, (request) => mayAskAll(concerned(request), caller, as));
      if (retried === undefined) throw new RequestError(404, "No failed job with this subject is stored.");
      return retried;
    },
  };

  /** Throws a RequestError unless the cluster allows the user to change each of them. */
  async function mayAskAll(all: readonly Entry[], caller: Access, as: As): Promise<void> {
    const sees = await sight(caller);
    const places = new Map(all.map((one) => [`${one.key.namespace} ${apiOf(one).apiVersion}`, one]));
    for (const one of places.values()) {
      if (!sees(one.key.namespace))
        throw new RequestError(403, "It affects deployments in namespaces that you cannot see.");
      const why = await mayPatch({ namespace: one.key.namespace, name: "" }, apiOf(one), as);
      if (why !== undefined) throw new RequestError(403, `It affects deployments that you cannot reconcile: ${why}`);
    }
  }

  /** For a pull request, every deployment that may follow its repository. */
  function concerned(request: Request): readonly Entry[] {
    switch (request.kind) {
      case "reconcile":
        return [deployments.find(request.deployment) ?? []].flat();
      case "commit-status":
        return deployments.tracking(request.repo);
      case "preview":
      case "report":
        return mayFollow(request.pullRequest.repoName);
      case "merge-group":
        return mayFollow(request.group.repoName);
      case "notify":
        return deployments.all();
      case "flux-fetch":
        return []; // it makes Flux look once more, and changes nothing
    }
  }

  function concernedBy(event: GitEvent): readonly Entry[] {
    switch (event.kind) {
      case "push":
        return [...reposOf(event)].flatMap((repo) => [...deployments.tracking(repo), ...deployments.including(repo)]);
      case "pull-request":
        return [...reposOf(event)].flatMap((repo) => deployments.tracking(repo));
      case "merge-group":
      case "rerun":
        return mayFollow(event.repoName);
      default:
        return [];
    }
  }

  function mayFollow(repoName: string): readonly Entry[] {
    const end = `/${repoName}`.toLowerCase();
    return deployments.all().filter((one) => followsGit(one) && one.repo.toLowerCase().endsWith(end));
  }

  async function refuseInCluster(deployment: Entry, caller: Access): Promise<string | undefined> {
    return mayPatch(deployment.key, apiOf(deployment), asWhom(caller, mapping));
  }

  function patchFor(action: Action, deployment: Entry, request: string) {
    switch (action) {
      case "suspend":
        return suspendPatch(true);
      case "resume":
        return suspendPatch(false);
      case "approve":
        return approvePatch(pendingHash(deployment) ?? "", deployment.resourceVersion);
      default:
        return apiOf(deployment).requestPatch(action, { id: request, at: new Date(clock.now()).toISOString() });
    }
  }
}

type Entry = Deployment | MalformedDeployment;
type As = Pick<KubeRequest, "as" | "asGroups">;

function isRequest(action: Action): boolean {
  return action !== "suspend" && action !== "resume" && action !== "approve";
}

function objection(action: Action, deployment: Entry): string | undefined {
  const { apiVersion, requests } = apiOf(deployment);
  if (action !== "suspend" && action !== "resume" && !requests.includes(action))
    return `KluctlDeployments of ${apiVersion} do not support this action; convert them with \`towline migrate\`.`;
  return objectionTo(action, deployment);
}

/** Throws unless the pending change is the one that the user saw. */
function staleness(deployment: Entry, seen: string | undefined): string | undefined {
  if (seen === undefined) return "Name the change to approve: `hash`, as given in the list of possible actions.";
  const pending = pendingHash(deployment);
  return pending === seen
    ? undefined
    : `The pending change is no longer the one that was reviewed: ${String(pending).slice(0, 8)}, not ${seen.slice(0, 8)}. Review it again.`;
}

/**
 * Maps a user of the page to a cluster identity. Names reserved by Kubernetes are rejected. Only groups named in the
 * configuration are passed: the server needs the right to impersonate each, and one missing right fails the request.
 */
export function asWhom(
  { name, groups }: Pick<Access, "name" | "groups">,
  { actAs, userPrefix = "", groupPrefix = "", viewerGroups, operatorGroups }: Mapping,
): As {
  if (actAs === "server") return {};
  if (name === undefined) return { as: tokenUser };
  const user = userPrefix + name;
  if (!isPlain(user) || isKept(user))
    throw new RequestError(
      403,
      "The cluster cannot be accessed under your name.",
      "It starts with system:, or has characters that are not allowed in a header. Set page.oidc.nameClaim or page.userPrefix.",
    );
  const known = new Set([...viewerGroups, ...operatorGroups]);
  const impersonated = groups.filter((group) => known.has(group)).map((group) => groupPrefix + group);
  return { as: user, asGroups: impersonated.filter(mayBeImpersonated) };
}

/** All groups that may be passed to the cluster. Operators may also be in viewer groups. */
export function groupsToImpersonate({
  actAs,
  groupPrefix = "",
  viewerGroups,
  operatorGroups,
}: Mapping): readonly string[] {
  if (actAs === "server" || operatorGroups.length === 0) return [];
  const groups = new Set([...operatorGroups, ...viewerGroups]);
  return [...groups]
    .filter((group) => group !== "*")
    .map((group) => groupPrefix + group)
    .filter(mayBeImpersonated);
}

function mayBeImpersonated(group: string): boolean {
  return isPlain(group) && !isKept(group);
}

function isKept(name: string): boolean {
  return /^system:/i.test(name) || name === tokenUser;
}

function isPlain(text: string): boolean {
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text);
}

async function refusalOf(check: () => Promise<string | undefined>): Promise<string | undefined> {
  try {
    return await check();
  } catch (error) {
    // A user who cannot be impersonated can still view the page, and is shown the reason.
    if (error instanceof RequestError && error.status === 403)
      return [error.message, error.hint].filter(Boolean).join(" ");
    throw error;
  }
}

/** Translates an error of the API server for the page's user. */
function explain({ status, message }: ApiError, { as }: As): RequestError {
  const words = message.replace(/^\S+ \S+: (?:\d{3} )?/, "").slice(0, 500);
  if (status === 403 && words.includes(" cannot impersonate "))
    return new RequestError(
      403,
      `The server is not allowed to impersonate ${as}.`,
      `${words}. docs/rights.md explains how to grant this.`,
    );
  if (status === 403 || status === 422)
    return new RequestError(403, `The cluster does not allow ${as ?? "the server"} to do this.`, words);
  if (status === 404) return gone();
  if (status === 409)
    return new RequestError(409, "The resource is being changed at the same time.", "Reload and try again.");
  return new RequestError(503, "The API server returned an unexpected response.", words);
}

function gone(): RequestError {
  return new RequestError(404, "There is no KluctlDeployment with this name.");
}
