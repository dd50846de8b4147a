/**
 * The store of results that `kluctl gitops` and kluctl's web UI read: one Secret per result, in the shape that kluctl's
 * own controller writes, so that either can read, and clean up after, the other.
 */
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { createHash } from "node:crypto";
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Key, ResultObject } from "../model.ts";
import type { Results } from "../ports.ts";
import type { KubeClient } from "./client.ts";

export interface ResultsDeps {
  readonly client: Pick<KubeClient, "request" | "list">;
  /** Created when it is not there; `kluctl-results` unless kluctl's tools are told otherwise. */
  readonly namespace?: string | undefined;
  /** How many to keep of one project and target. */
  readonly keepCommandResults?: number | undefined;
  readonly keepValidateResults?: number | undefined;
  readonly log: Logger;
}

export interface ResultStore extends Results {
  /** Removes what deployments left behind that are no more; `exists` is asked about each that has results. */
  removeOrphans(clusterId: string, exists: (key: Key) => boolean): Promise<void>;
}

type Kind = "command" | "validate";
type Document = Readonly<Record<string, unknown>>;

const compress = promisify(gzip);
const prefixes = { command: "cr", validate: "vr" } as const;
const mostSecretBytes = 1024 * 1024 - 8 * 1024; // the API server's limit, less what it adds itself
const mostAnnotationBytes = 256 * 1024 - 1024;
/** Ours: lets retention ask for one target's results only, instead of all there are. */
const groupLabel = "towline.dev/result-group";
/** Results that others stored have no such label; they are counted when all are looked at. */
const wholeSweepMs = 60 * 60_000;
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

const optionalText = z.string().optional().catch(undefined);
const Summary = z.object({
  id: z.string().regex(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/), // it becomes a label's value
  projectKey: z.object({ repoKey: optionalText, subDir: optionalText }).catch({}),
  targetKey: z.object({ targetName: optionalText, clusterId: optionalText, discriminator: optionalText }).catch({}),
  kluctlDeployment: z
    .object({ name: z.string(), namespace: z.string(), clusterId: z.string() })
    .optional()
    .catch(undefined),
  startTime: optionalText,
  endTime: optionalText,
  commandInfo: z
    .object({ startTime: optionalText, endTime: optionalText, command: optionalText })
    .optional()
    .catch(undefined),
});
type Summary = z.output<typeof Summary>;

interface Stored {
  readonly name: string;
  readonly kind: Kind;
  readonly summary: Summary;
}

const SecretMetadata = z.object({
  metadata: z.object({ name: z.string(), annotations: z.record(z.string(), z.string()).catch({}) }),
});

export function createResults(deps: ResultsDeps): ResultStore {
  const { client, log, namespace = "kluctl-results", keepCommandResults = 5, keepValidateResults = 2 } = deps;
  const keep = { command: keepCommandResults, validate: keepValidateResults };
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
  const sweptAt = new Map<Kind, number>();

  async function store(kind: Kind, summary: Document, data: Readonly<Record<string, unknown>>): Promise<boolean> {
    const known = Summary.parse(summary);
    const secret = await toSecret(kind, namespace, known, summary, data);
    const tooLarge = sizeProblem(secret);
    if (tooLarge !== undefined) {
      log.warn({ result: known.id, deployment: known.kluctlDeployment }, `The result is not stored: ${tooLarge}`);
      return false;
    }
    await apply(secret);
    // What is old stays a little longer when it cannot be removed now: that must not undo the storing.
    await removeOld(kind, known).catch((error: unknown) => log.warn({ err: error }, "could not remove old results"));
    return true;
  }

  async function apply(secret: SecretObject): Promise<void> {
    const query = { fieldManager: "kluctl-results", force: true };
    const request = {
      method: "PATCH",
      patch: "apply",
      path: `${path}/${secret.metadata.name}`,
      query,
      body: secret,
    } as const;
    try {
      await client.request(request);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
      await createNamespace();
      await client.request(request);
    }
  }

  async function createNamespace(): Promise<void> {
    try {
      const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
      await client.request({ method: "POST", path: "/api/v1/namespaces", body });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error; // somebody else was faster
    }
  }

  async function removeOld(kind: Kind, newest: Summary): Promise<void> {
    const whole = performance.now() - (sweptAt.get(kind) ?? -Infinity) > wholeSweepMs;
    if (whole) sweptAt.set(kind, performance.now());
    const groups = Map.groupBy(await list(kind, whole ? undefined : groupOf(newest)), ({ summary }) =>
      groupOf(summary),
    );
    for (const stored of groups.values()) {
      for (const { name } of stored.sort(byAge).slice(keep[kind])) await remove(name);
    }
  }

  async function list(kind: Kind, group?: string): Promise<Stored[]> {
    const labelSelector = `kluctl.io/${kind}-result-id${group === undefined ? "" : `,${groupLabel}=${group}`}`;
    const { items } = await client.list(path, { query: { labelSelector }, accept: metadataOnly });
    return items.flatMap((item) => {
      const secret = SecretMetadata.safeParse(item).data;
      const summary = secret && readSummary(secret.metadata.annotations[`kluctl.io/${kind}-result-summary`]);
      return secret && summary ? [{ name: secret.metadata.name, kind, summary }] : [];
    });
  }

  async function remove(name: string): Promise<void> {
    try {
      await client.request({ method: "DELETE", path: `${path}/${encodeURIComponent(name)}` });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  return {
    async storeCommand(result, summary) {
      const { compactedObjects = [], objects: _, ...document } = result.document;
      const reduced = { ...document, objects: result.objects.map(reduceObject) };
      return await store("command", summary, { reducedResult: reduced, compactedObjects: compactedObjects ?? [] });
    },
    async storeValidate(document, summary) {
      return await store("validate", summary, { result: document });
    },
    async removeOrphans(clusterId, exists) {
      for (const { name, summary } of [...(await list("command")), ...(await list("validate"))]) {
        const deployment = summary.kluctlDeployment;
        if (deployment?.clusterId === clusterId && !exists(deployment)) await remove(name);
      }
    },
  };
}

interface SecretObject {
  readonly apiVersion: "v1";
  readonly kind: "Secret";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly data: Readonly<Record<string, string>>;
}

async function toSecret(
  kind: Kind,
  namespace: string,
  known: Summary,
  summary: Document,
  data: Document,
): Promise<SecretObject> {
  const { id, projectKey, kluctlDeployment } = known;
  // Older versions of kluctl look for the deployment in the labels, newer ones in the annotations.
  const deployment: Record<string, string> = kluctlDeployment
    ? {
        "kluctl.io/result-deployment-name": kluctlDeployment.name,
        "kluctl.io/result-deployment-namespace": kluctlDeployment.namespace,
      }
    : {};
  const compressed = Object.entries(data).map(async ([key, value]) => {
    const bytes = await compress(JSON.stringify(value), { level: constants.Z_BEST_COMPRESSION });
    return [key, bytes.toString("base64")] as const;
  });
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name: resultName(prefixes[kind], id, projectKey.repoKey),
      namespace,
      labels: {
        "kluctl.io/result": "true",
        [`kluctl.io/${kind}-result-id`]: id,
        [groupLabel]: groupOf(known),
        ...Object.fromEntries(Object.entries(deployment).filter(([, value]) => value.length <= 63)), // as long as a label may be
      },
      annotations: {
        [`kluctl.io/${kind}-result-summary`]: JSON.stringify(summary),
        ...(projectKey.repoKey && { "kluctl.io/result-project-repo-key": projectKey.repoKey }),
        ...(projectKey.subDir && { "kluctl.io/result-project-subdir": projectKey.subDir }),
        ...deployment,
      },
    },
    data: Object.fromEntries(await Promise.all(compressed)),
  };
}

/** `cr-<repository>-<id>`, as kluctl names it: at most 63 characters, and those of a DNS label. */
export function resultName(prefix: string, id: string, repoKey: string | undefined): string {
  const last =
    repoKey
      ?.replace(/^[a-z]+:\/\/[^/]*/, "")
      .split("/")
      .findLast((part) => part !== "") ?? "";
  // kluctl keeps capitals, which Kubernetes then refuses: such a result would never be stored.
  const clean = last
    .replaceAll("_", "-")
    .replace(/[^a-zA-Z0-9-]/g, "")
    .toLowerCase();
  const room = 63 - (id.length + 1) - (prefix.length + 1);
  return [prefix, clean.slice(0, Math.max(0, room)), id].filter((part) => part !== "").join("-");
}

function sizeProblem({ metadata, data }: SecretObject): string | undefined {
  const annotations = Buffer.byteLength(Object.entries(metadata.annotations).flat().join(""));
  if (annotations > mostAnnotationBytes)
    return `its summary has ${annotations} bytes, and an object may have 262144 bytes of annotations.`;
  const bytes = Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text, "base64"), 0);
  return bytes > mostSecretBytes ? `it has ${bytes} bytes compressed, and a Secret may have 1048576.` : undefined;
}

/** Names, kind, labels and annotations: what lists of objects show. */
function reduceObject({ ref, changes, rendered, remote, applied, ...flags }: ResultObject): Document {
  return {
    ref,
    ...(changes.length > 0 && { changes }),
    ...(flags.new && { new: true }),
    ...(flags.orphan && { orphan: true }),
    ...(flags.deleted && { deleted: true }),
    ...(flags.hook && { hook: true }),
    ...(rendered !== undefined && { rendered: reduceText(rendered) }),
    ...(remote !== undefined && { remote: reduceText(remote) }),
    ...(applied !== undefined && { applied: reduceText(applied) }),
  };
}

function reduceText(text: string): Document {
  const {
    apiVersion,
    kind,
    metadata = {},
  } = JSON.parse(text) as { apiVersion: string; kind: string; metadata?: Document };
  const kept = ["name", "namespace", "labels", "annotations"].flatMap((field) => {
    const value = metadata[field];
    const empty = !value || (typeof value === "object" && Object.keys(value).length === 0);
    return empty ? [] : [[field, value] as const];
  });
  return { apiVersion, kind, metadata: Object.fromEntries(kept) };
}

/** One project and target, of which only the newest results are kept. */
function groupOf({ projectKey, targetKey }: Summary): string {
  const parts = [
    projectKey.repoKey,
    projectKey.subDir,
    targetKey.targetName,
    targetKey.clusterId,
    targetKey.discriminator,
  ];
  return createHash("sha256")
    .update(JSON.stringify(parts.map((part) => part ?? "")))
    .digest("hex")
    .slice(0, 40);
}

/** Newest first; kluctl's own order. */
function byAge(a: Stored, b: Stored): number {
  const [x, y] = [a.summary, b.summary].map((summary) => ({ ...summary, ...summary.commandInfo }));
  return (
    time(y?.startTime) - time(x?.startTime) ||
    time(y?.endTime) - time(x?.endTime) ||
    (x?.commandInfo?.command ?? "").localeCompare(y?.commandInfo?.command ?? "") ||
    a.summary.id.localeCompare(b.summary.id)
  );
}

function time(text: string | undefined): number {
  return Date.parse(text ?? "") || 0;
}

function readSummary(text: string | undefined): Summary | undefined {
  try {
    return Summary.safeParse(JSON.parse(text ?? "")).data;
  } catch {
    return undefined;
  }
}
