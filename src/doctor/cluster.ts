/** The doctor's access to the API server: reads and access reviews only. */
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { kluctlApi } from "../apis/kluctl/api.ts";
import { parseDeployment } from "../apis/kluctl/custom-resource.ts";
import { collectionPath, versionPath } from "../apis/api.ts";
import { legacyApi } from "../apis/flux-kluctl/api.ts";
import { leaseName } from "../kube/lease.ts";
import { metadataOnly } from "../kube/stored-commands.ts";
import type { Deployment, Key, MalformedDeployment } from "../model.ts";
import { isOurId } from "../reconcile/our-ids.ts";

export interface ServerFacts {
  readonly version: string;
  /** How far this machine's clock is ahead of the API server's. */
  readonly aheadMs: number;
}

/** A Deployment that runs kluctl's controller or its replacement. */
export interface ControllerFacts {
  readonly key: Key;
  readonly image: string;
  readonly wanted: number;
  readonly ready: number;
}

export interface LeaseFacts {
  readonly holder: string;
  /** Epoch milliseconds. */
  readonly renewedAt: number;
  readonly durationMs: number;
}

/** The last writer of a resource's status. */
export interface Writer {
  readonly manager: string;
  /** Epoch milliseconds. */
  readonly at: number;
  /** The status contains an ID of a Towline. */
  readonly isTowline?: true | undefined;
}

export interface ListedDeployment {
  readonly deployment: Deployment | MalformedDeployment;
  /** The spec before parsing. */
  readonly spec: unknown;
  readonly lastWriter?: Writer | undefined;
}

/** Attributes of an access review: one verb on one resource. */
export interface AccessReview {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string | undefined;
  /** Absent: all namespaces, or a cluster-scoped resource. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

export interface DoctorCluster {
  server(): Promise<ServerFacts>;
  /** Resources of the API group: `kluctldeployments`, `kluctldeployments/status`; empty without the CRD. */
  resources(): Promise<readonly string[]>;
  deployments(): Promise<readonly ListedDeployment[]>;
  /** Resources of the legacy API, unparsed; `undefined` if the cluster does not have that API. */
  legacy(): Promise<readonly unknown[] | undefined>;
  /** Deployments labelled as kluctl's controller, if they may be listed. */
  controllers(namespace: string): Promise<readonly ControllerFacts[] | "forbidden">;
  lease(key: Key): Promise<LeaseFacts | undefined>;
  /** The lease that a Towline holds while it reconciles a deployment. */
  ownLease(key: Key): Promise<LeaseFacts | undefined>;
  /** True as well if the caller may not read service accounts. */
  serviceAccountExists(key: Key): Promise<boolean>;
  namespaceExists(name: string): Promise<boolean>;
  /** All namespaces with KluctlDeployments; `undefined` if they may not be listed. */
  deploymentNamespaces(): Promise<readonly string[] | undefined>;
  /** Access review for the caller or the given service account. */
  may(access: AccessReview): Promise<boolean>;
}

export interface DoctorClusterDeps {
  readonly client: Pick<KubeClient, "request" | "list" | "stream">;
  /** Empty: all. */
  readonly namespaces: readonly string[];
  /** Account whose permissions are checked; default: the caller. */
  readonly serviceAccount?: Key | undefined;
  readonly now: () => number;
}

const Time = z.string().transform((text) => Date.parse(text));

const Workload = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string() }),
  spec: z.object({
    replicas: z.number().catch(1),
    template: z.object({ spec: z.object({ containers: z.array(z.object({ image: z.string().catch("") })) }) }),
  }),
  status: z.object({ readyReplicas: z.number().catch(0) }).catch({ readyReplicas: 0 }),
});

const LeaseObject = z.object({
  spec: z.object({
    holderIdentity: z.string().catch(""), // empty once released
    renewTime: Time,
    leaseDurationSeconds: z.number().catch(15),
  }),
});

const Managed = z.object({
  metadata: z.object({
    managedFields: z
      .array(
        z.object({ manager: z.string(), time: Time, subresource: z.string().optional() }).catch(undefined as never),
      )
      .catch([]),
  }),
  status: z
    .object({ lastDriftDetectionResult: z.object({ endTime: Time, reconcileId: z.string() }) })
    .optional()
    .catch(undefined),
});

/** The API server records writes with a precision of a second, and the writer takes its time a little earlier. */
const sameWriteMs = 5_000;

export function createDoctorCluster({ client, namespaces, serviceAccount, now }: DoctorClusterDeps): DoctorCluster {
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  /** `undefined` if it does not exist. */
  async function find(path: string): Promise<unknown> {
    try {
      return await client.request({ method: "GET", path });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async function lease({ namespace, name }: Key): Promise<LeaseFacts | undefined> {
    const found = await find(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`);
    const { spec } = LeaseObject.safeParse(found).data ?? {};
    if (spec === undefined) return undefined;
    const { holderIdentity: holder, renewTime: renewedAt, leaseDurationSeconds } = spec;
    return { holder, renewedAt, durationMs: leaseDurationSeconds * 1_000 };
  }

  return {
    async server() {
      const from = now();
      // `request` does not return headers; errors of `stream` call it a watch.
      const answer = await client
        .stream({ path: "/version", signal: AbortSignal.timeout(10_000) })
        .catch((cause: unknown) => {
          throw new Error((cause as Error).message.replace(/^watch /, "GET "), { cause });
        });
      const to = now();
      // The header has whole seconds: add half a second on average.
      const date = Date.parse(answer.headers.date ?? "") + 500;
      const aheadMs = Number.isNaN(date) ? 0 : (from + to) / 2 - date;
      const { gitVersion = "of an unknown version" } = JSON.parse(await textOf(answer)) as { gitVersion?: string };
      return { version: gitVersion, aheadMs };
    },

    async resources() {
      const found = (await find(versionPath(kluctlApi))) as { resources?: { name: string }[] } | undefined;
      return found?.resources?.map(({ name }) => name) ?? [];
    },

    async deployments() {
      const lists = await Promise.all(places.map((place) => client.list(collectionPath(kluctlApi, place))));
      return lists.flatMap(({ items }) =>
        items.flatMap((item) => {
          const deployment = parseDeployment(item);
          const { spec } = item as { spec?: unknown };
          return deployment === undefined ? [] : [{ deployment, spec, lastWriter: lastWriterOf(item) }];
        }),
      );
    },

    async legacy() {
      try {
        const lists = await Promise.all(places.map((place) => client.list(collectionPath(legacyApi, place))));
        return lists.flatMap(({ items }) => items);
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
    },

    async controllers(namespace) {
      const query = { labelSelector: "control-plane=kluctl-controller" };
      const listed = async () => {
        try {
          return (await client.list("/apis/apps/v1/deployments", { query })).items;
        } catch (error) {
          if (!(error instanceof ApiError && error.status === 403)) throw error;
          return (await client.list(`/apis/apps/v1/namespaces/${namespace}/deployments`, { query })).items;
        }
      };
      const found = await unlessForbidden(listed());
      if (found === undefined) return "forbidden";
      return found.map((item) => {
        const { metadata, spec, status } = Workload.parse(item);
        const images = spec.template.spec.containers.map(({ image }) => image);
        return { key: metadata, image: images.join(", "), wanted: spec.replicas, ready: status.readyReplicas };
      });
    },

    async lease(key) {
      const found = await lease(key);
      return found?.holder ? found : undefined;
    },
    // Also returned when it was released, because it has the time of that.
    ownLease: ({ namespace, name }) => lease({ namespace, name: leaseName(name) }),
    async serviceAccountExists({ namespace, name }) {
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${encodeURIComponent(name)}`;
      return (await unlessForbidden(find(path).then((found) => found !== undefined))) ?? true;
    },
    namespaceExists: async (name) => (await find(`/api/v1/namespaces/${name}`)) !== undefined,
    async deploymentNamespaces() {
      const list = client.list(collectionPath(kluctlApi), { accept: metadataOnly });
      const found = await unlessForbidden(list);
      const names = found?.items.map((item) => (item as { metadata: { namespace: string } }).metadata.namespace);
      return names && [...new Set(names)].sort();
    },

    async may(resourceAttributes) {
      const kind = serviceAccount === undefined ? "SelfSubjectAccessReview" : "SubjectAccessReview";
      const answer = (await client.request({
        method: "POST",
        path: `/apis/authorization.k8s.io/v1/${kind.toLowerCase()}s`,
        body: {
          apiVersion: "authorization.k8s.io/v1",
          kind,
          spec: { resourceAttributes, ...(serviceAccount && subjectOf(serviceAccount)) },
        },
      })) as { status?: { allowed?: boolean } };
      return answer.status?.allowed === true;
    },
  };
}

async function unlessForbidden<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return undefined;
    throw error;
  }
}

/** User and groups of a service account in access reviews. */
function subjectOf({ namespace, name }: Key) {
  return {
    user: `system:serviceaccount:${namespace}:${name}`,
    groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
  };
}

export function lastWriterOf(item: unknown): Writer | undefined {
  const { data } = Managed.safeParse(item);
  const { lastDriftDetectionResult: check } = data?.status ?? {};
  const [last] = (data?.metadata.managedFields ?? [])
    .filter((entry) => (entry as typeof entry | undefined)?.subresource === "status")
    .map(({ manager, time }) => ({ manager, at: time }))
    .sort((a, b) => b.at - a.at);
  const isTowline = last && check && isOurId(check.reconcileId) && Math.abs(last.at - check.endTime) <= sameWriteMs;
  return last && { ...last, ...(isTowline && { isTowline }) };
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of answer.setEncoding("utf8")) text += chunk as string;
  return text;
}
