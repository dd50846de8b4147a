/** One result as a Secret: its name, its labels, and which parts are kept. Pure except for the compression. */
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { z } from "zod";
import { describeObject, type ResultObject } from "../model.ts";

export type ResultKind = "command" | "validate";
export type Document = Readonly<Record<string, unknown>>;

const compress = promisify(gzip);
const prefixes = { command: "cr", validate: "vr" } as const;
const mostSecretBytes = 1024 * 1024 - 8 * 1024; // the API server's limit, less what it adds itself
const mostAnnotationBytes = 256 * 1024 - 1024;
/** Our own label: retention can list the results of one target instead of all results. */
export const groupLabel = "towline.dev/result-group";

const optionalText = z.string().optional().catch(undefined);
export const Summary = z.object({
  id: z.string().regex(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/), // it becomes the value of a label
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
export type Summary = z.output<typeof Summary>;

export interface SecretObject {
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

export async function toSecret(
  kind: ResultKind,
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
        ...Object.fromEntries(Object.entries(deployment).filter(([, value]) => value.length <= 63)), // a label's maximum
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

/** `cr-<repository>-<id>`, as kluctl names it: at most 63 characters, and only those of a DNS label. */
export function resultName(prefix: string, id: string, repoKey: string | undefined): string {
  const last =
    repoKey
      ?.replace(/^[a-z]+:\/\/[^/]*/, "")
      .split("/")
      .findLast((part) => part !== "") ?? "";
  // kluctl keeps capitals, which Kubernetes refuses: such a result would never be stored.
  const clean = last
    .replaceAll("_", "-")
    .replace(/[^a-zA-Z0-9-]/g, "")
    .toLowerCase();
  const room = 63 - (id.length + 1) - (prefix.length + 1);
  return [prefix, clean.slice(0, Math.max(0, room)), id].filter((part) => part !== "").join("-");
}

/** Returns why the API server would refuse the Secret, or `undefined`. */
export function sizeProblem({ metadata, data }: SecretObject): string | undefined {
  const annotations = Buffer.byteLength(Object.entries(metadata.annotations).flat().join(""));
  if (annotations > mostAnnotationBytes)
    return `its summary has ${annotations} bytes, and an object can have 262144 bytes of annotations.`;
  const bytes = Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text, "base64"), 0);
  return bytes > mostSecretBytes ? `it has ${bytes} bytes compressed, and a Secret can have 1048576.` : undefined;
}

/** Names, kind, labels and annotations: what lists of objects show. */
export function reduceObject(object: ResultObject): Document {
  const { rendered, remote, applied } = object;
  return {
    ...describeObject(object),
    ...(rendered !== undefined && { rendered: reduceText(rendered) }),
    ...(remote !== undefined && { remote: reduceText(remote) }),
    ...(applied !== undefined && { applied: reduceText(applied) }),
  };
}

export function reduceText(text: string): Document {
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

/** Identifies a project and target, of which only the newest results are kept. */
export function groupOf({ projectKey, targetKey }: Summary): string {
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
