/**
 * The server's own cluster for previews, through an address at which nothing can be written and values of Secrets are
 * masked (src/api-proxy): whatever this client sends, no more than a dry run comes of it.
 */
import { createLimit } from "../kit/limit.ts";
import { compareText } from "../kit/compare-text.ts";
import { field, isRecord, type JsonObject, listOf } from "../kit/json.ts";
import { isPathSegment } from "../kit/path-segment.ts";
import { ApiError } from "../errors.ts";
import type { Identity } from "../model.ts";
import type { ClusterCapabilities, DryRun, FoundObject, PreviewCluster, PreviewClusters } from "../ports.ts";
import { createKubeClient, type KubeClient, type KubeClientOptions } from "./client.ts";
import { rootOf } from "./kind.ts";
import { readOrNothing } from "./read-or-nothing.ts";

export interface GuardedAddress {
  readonly url: string;
  maskedValues(): string[];
  close(): Promise<void>;
}

export interface PreviewClustersDeps {
  /** Opens the address for one account. Throws PreviewRefusedError. */
  readonly open: (run: Pick<Identity, "impersonate">) => Promise<GuardedAddress>;
  readonly observe?: KubeClientOptions["observe"];
}

/** Requests of all previews: the API server has others to answer. */
const atOnce = 16;
/** Ten times the largest object that Kubernetes accepts. */
const mostAnswerMiB = 16;

export function createPreviewClusters({ open, observe }: PreviewClustersDeps): PreviewClusters {
  const limit = createLimit(atOnce);
  return {
    async open(run, of) {
      const address = await open(run);
      const client = createKubeClient({ text: toKubeconfig(address.url), mostAnswerMiB, observe });
      return toCluster(client, address, (work, signal) => limit.run(work, { of, signal }));
    },
  };
}

interface ResourceList {
  readonly resources?: readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[];
}

type Place = { readonly path: string } | Extract<FoundObject, { readonly problem: unknown }>;

type Turn = <T>(work: () => Promise<T>, signal: AbortSignal) => Promise<T>;

function toCluster(client: KubeClient, address: GuardedAddress, turn: Turn): PreviewCluster {
  const kinds = new Map<string, Promise<ResourceList | undefined>>();
  let served: Promise<readonly string[]> | undefined;
  let requests = 0;

  function ask<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return turn(() => {
      requests++;
      return work();
    }, signal);
  }

  /** A failure is not kept: another object may ask again. */
  function kindsOf(apiVersion: string, signal: AbortSignal): Promise<ResourceList | undefined> {
    const known = kinds.get(apiVersion);
    if (known !== undefined) return known;
    const read = ask(() => readOrNothing(client, rootOf(apiVersion), signal), signal) as Promise<
      ResourceList | undefined
    >;
    kinds.set(apiVersion, read);
    read.catch(() => kinds.delete(apiVersion));
    return read;
  }

  async function pathOf(object: JsonObject, signal: AbortSignal): Promise<Place> {
    const { apiVersion = "", kind = "" } = object as { apiVersion?: string; kind?: string };
    const { namespace, name = "" } = object["metadata"] as { namespace?: string; name?: string };
    if (!versionPattern.test(apiVersion)) return { problem: "unserved" };
    if (![name, ...(namespace ? [namespace] : [])].every(isName)) return { problem: "unnamed" };
    if (!(await readServed(signal)).includes(apiVersion)) return { problem: "unserved" };
    const list = await kindsOf(apiVersion, signal);
    const resource = list?.resources?.find((one) => one.kind === kind && !one.name.includes("/"));
    if (resource === undefined) return { problem: "unserved" };
    if (resource.namespaced && !namespace) return { problem: "unplaced" };
    const place = resource.namespaced ? `/namespaces/${encodeURIComponent(namespace ?? "")}` : "";
    return { path: `${rootOf(apiVersion)}${place}/${resource.name}/${encodeURIComponent(name)}` };
  }

  const read = (path: string, signal: AbortSignal) => ask(() => readOrNothing(client, path, signal), signal);

  /** The versions of APIs that the cluster has. A branch may name any number of others, for which it is not asked. */
  function readServed(signal: AbortSignal): Promise<readonly string[]> {
    const reading = (served ??= readVersions(signal));
    reading.catch(() => (served = undefined));
    return reading;
  }

  async function readVersions(signal: AbortSignal): Promise<readonly string[]> {
    const [core, others] = await Promise.all([read("/api", signal), read("/apis", signal)]);
    const groups = listOf(field(others, "groups")).flatMap((group) => listOf(field(group, "versions")));
    const versions = [...listOf(field(core, "versions")), ...groups.map((one) => field(one, "groupVersion"))];
    return versions.filter((name) => typeof name === "string").filter((name) => versionPattern.test(name));
  }

  async function readCapabilities(signal: AbortSignal): Promise<ClusterCapabilities> {
    const [version, names] = await Promise.all([read("/version", signal), readServed(signal)]);
    const kinds = await Promise.all(names.map((name) => kindsIfAny(name, signal)));
    const ofKinds = names.flatMap((name, at) => (kinds[at]?.resources ?? []).map(({ kind }) => `${name}/${kind}`));
    return {
      kubeVersion: String(field(version, "gitVersion") ?? ""),
      apiVersions: [...new Set([...names, ...ofKinds])].sort(compareText),
    };
  }

  /** Like Helm, without those of an extension of the API server that does not answer. */
  async function kindsIfAny(apiVersion: string, signal: AbortSignal): Promise<ResourceList | undefined> {
    try {
      return await kindsOf(apiVersion, signal);
    } catch (error) {
      if (error instanceof ApiError) return undefined;
      throw error;
    }
  }

  let capabilities: Promise<ClusterCapabilities> | undefined;

  return {
    async capabilities(signal) {
      const reading = (capabilities ??= readCapabilities(signal));
      reading.catch(() => (capabilities = undefined));
      return reading;
    },
    async find(object, signal): Promise<FoundObject> {
      const at = await pathOf(object, signal);
      if ("problem" in at) return at;
      const live = await ask(() => readOrNothing(client, at.path, signal), signal);
      return { live: isRecord(live) ? live : undefined };
    },
    async dryRun(object, fieldManager, signal): Promise<DryRun> {
      const at = await pathOf(object, signal);
      if ("problem" in at) throw new Error(`there is no place in the cluster for a ${String(object["kind"])}`);
      // The address adds dryRun itself; said here as well, a request that went elsewhere would still write nothing.
      const query = { dryRun: "All", fieldManager, force: true };
      const request = { method: "PATCH", patch: "apply", path: at.path, query, body: object, signal } as const;
      try {
        const applied = await ask(() => client.request(request), signal);
        if (!isRecord(applied)) throw new ApiError(0, `PATCH ${at.path}: the response is not an object`);
        return { applied };
      } catch (error) {
        if (!(error instanceof ApiError) || !isRefusal(error)) throw error;
        const { status, message } = error;
        return { refusal: { status, message: message.replace(/^PATCH \S+: \d+ /, "") } };
      }
    },
    maskedValues: () => address.maskedValues(),
    requests: () => requests,
    async close() {
      client.close();
      await address.close();
    },
  };
}

/** Kubernetes itself is stricter, except for the names of a few kinds. */
const isName = (text: string) => text.length <= 253 && isPathSegment(text);

const versionPattern = /^(?:[A-Za-z0-9][-.A-Za-z0-9]{0,252}\/)?[A-Za-z0-9]{1,63}$/;

/** Whether it is about the object, so that a retry would end alike. */
function isRefusal({ status }: ApiError): boolean {
  return status >= 400 && status < 500 && status !== 401 && status !== 429;
}

/** On this machine, without TLS: the address is a secret of this process. */
function toKubeconfig(server: string): string {
  return JSON.stringify({
    ...{ apiVersion: "v1", kind: "Config", "current-context": "default" },
    contexts: [{ name: "default", context: { cluster: "default", user: "default" } }],
    clusters: [{ name: "default", cluster: { server, "insecure-skip-tls-verify": true } }],
    users: [{ name: "default", user: {} }],
  });
}
