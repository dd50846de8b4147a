/**
 * Determines which namespaces a user sees on the page: those configured for the user's groups and, if requests are made in
 * the user's name, only those whose deployments the API server allows the user to read.
 */
import { seesAll, type FindSight, type Sees } from "../web/sight.ts";
import type { Access } from "../web/access.ts";
import type { PageConfig } from "../config.ts";
import { ApiError, RequestError } from "../errors.ts";
import type { KubeClient } from "../kube/client.ts";
import type { WatchedDeployments } from "../apis/deployments.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { createLimit } from "../kit/limit.ts";
import { asWhom, type Mapping } from "./page-actions.ts";

export interface PageSightDeps {
  readonly deployments: Pick<WatchedDeployments, "all">;
  readonly client: Pick<KubeClient, "request">;
  readonly mapping: Mapping & Pick<PageConfig, "namespacesByGroup">;
  readonly now: () => number;
}

/** How long an answer of the API server is cached. */
const knownForMs = 30_000;
const mostKnown = 500;
const askedAtOnce = 8;

export function createPageSight({ deployments, client, mapping, now }: PageSightDeps): FindSight {
  const { actAs, namespacesByGroup } = mapping;
  const known = createBoundedMap<Promise<Sees>>({ entries: mostKnown, maxAgeMs: knownForMs, now });
  const asking = createLimit(askedAtOnce);

  function byGroup({ groups }: Access): Sees {
    if (namespacesByGroup.length === 0) return seesAll;
    const patterns = namespacesByGroup.flatMap((entry) => {
      const at = entry.lastIndexOf("=");
      const group = entry.slice(0, at);
      return group === "*" || groups.includes(group) ? [toPattern(entry.slice(at + 1))] : [];
    });
    return (namespace) => patterns.some((pattern) => pattern.test(namespace));
  }

  async function mayRead(user: string, groups: readonly string[], namespace?: string): Promise<boolean> {
    const resourceAttributes = { verb: "get", group: "gitops.kluctl.io", resource: "kluctldeployments", namespace };
    const spec = { user, groups: [...groups, "system:authenticated"], resourceAttributes };
    try {
      const answer = (await client.request({
        method: "POST",
        path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        body: { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec },
        totalMs: 0,
      })) as { status?: { allowed?: boolean } };
      return answer.status?.allowed === true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw error.status === 403
        ? new RequestError(
            503,
            "The server is not allowed to check your access with the API server.",
            "Allow it to create subjectaccessreviews: docs/rights.md.",
          )
        : new RequestError(503, "The API server did not respond to the check of your access.", "Try again.");
    }
  }

  async function byCluster(user: string, groups: readonly string[]): Promise<Sees> {
    if (await mayRead(user, groups)) return seesAll;
    const namespaces = [...new Set(deployments.all().map(({ key }) => key.namespace))];
    const allowed = await Promise.all(namespaces.map((one) => asking.run(() => mayRead(user, groups, one))));
    const seen = new Set(namespaces.filter((_, index) => allowed[index]));
    return (namespace) => seen.has(namespace);
  }

  function askOnce(caller: Access): Promise<Sees> {
    const { as = "", asGroups = [] } = asWhom(caller, mapping);
    const who = JSON.stringify([as, asGroups]);
    const before = known.get(who);
    if (before !== undefined) return before;
    const sees = byCluster(as, asGroups);
    known.set(who, sees);
    sees.catch(() => known.delete(who));
    return sees;
  }

  return async function findSight(caller) {
    // The page token has no user: the server's administrator issued it.
    if (caller.name === undefined) return seesAll;
    const given = byGroup(caller);
    if (actAs === "server") return given;
    const allowed = await askOnce(caller);
    if (given === seesAll) return allowed;
    return allowed === seesAll ? given : (namespace) => given(namespace) && allowed(namespace);
  };
}

/** `*` matches any characters; the configuration allows no other special characters. */
function toPattern(text: string): RegExp {
  return new RegExp(`^${text.replaceAll("*", ".*")}$`);
}
