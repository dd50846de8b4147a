/** Parses a KluctlDeployment where it enters. Nothing in this file throws, whatever the resource contains. */
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import {
  type Deployment,
  type DeploymentIdentity,
  type DeploymentSpec,
  type DeploymentStatus,
  isMalformed,
  type Key,
  type MalformedDeployment,
} from "../../model.ts";
import { epochNow } from "../../kit/monotonic.ts";
import { parseRepoKey } from "../../model/repo-key.ts";
import { repoId } from "../../model/repo-url.ts";
import { parseDuration } from "../../kit/duration.ts";
import { quote } from "../../kit/quote.ts";
import { toSource } from "./source.ts";
import { type RawSpec, SpecSchema } from "./spec-schema.ts";
import { parseStatus } from "./status-schema.ts";

const texts = z.record(z.string(), z.string());

const Metadata = z.object({
  name: z.string().min(1),
  namespace: z.string().min(1),
  uid: z.string().min(1),
  resourceVersion: z.string().catch(""),
  generation: z.number().catch(0),
  annotations: texts.catch({}),
  labels: texts.optional().catch(undefined),
  finalizers: z.array(z.string()).catch([]),
  creationTimestamp: z.string().optional().catch(undefined),
  deletionTimestamp: z.string().optional().catch(undefined),
});

const Resource = z.object({ metadata: Metadata, spec: z.unknown().optional(), status: z.unknown().optional() });

/**
 * Returns `undefined` only if the resource has no name or UID. Most resources that the API server sends are known
 * already; `known` finds the previous one, to reuse all of it, or its spec if only the status is new. The generation
 * counts the changes of the spec. `knownStatus`: like `known`, if nothing else of the previous one can be reused.
 */
export function parseDeployment(
  resource: unknown,
  known?: (key: Key) => Deployment | MalformedDeployment | undefined,
  knownStatus?: DeploymentStatus,
): Deployment | MalformedDeployment | undefined {
  const { data } = Resource.safeParse(resource);
  if (data === undefined) return undefined;
  const { name, namespace, ...metadata } = data.metadata;
  const { uid, resourceVersion, generation } = metadata;
  const key = { namespace, name };
  const found = known?.(key);
  const before = found?.uid === uid ? found : undefined;
  if (before?.resourceVersion === resourceVersion && resourceVersion !== "") return before;
  const identity: DeploymentIdentity = {
    key,
    ...metadata,
    status: withSeenTimes(parseStatus(data.status), before?.status ?? knownStatus),
  };
  const hasSameSpec = before?.generation === generation && generation > 0;
  return { ...identity, ...(hasSameSpec ? ownOf(before) : parseSpec(data.spec)) };
}

/**
 * Times in a status come from its author's clock. A time in the future was written by a clock that is ahead of ours; it
 * is replaced by the time at which we first saw it.
 */
function withSeenTimes(status: DeploymentStatus, before: DeploymentStatus | undefined): DeploymentStatus {
  const now = epochNow();
  const seen = <T extends { readonly document: unknown; readonly endTime: string }>(result?: T, known?: T) => {
    if (result === undefined || !(Date.parse(result.endTime) > now)) return result;
    const isKnown = known !== undefined && isDeepStrictEqual(known.document, result.document);
    return { ...result, endTime: isKnown ? known.endTime : new Date(now).toISOString() };
  };
  return {
    ...status,
    lastDeployResult: seen(status.lastDeployResult, before?.lastDeployResult),
    lastValidateResult: seen(status.lastValidateResult, before?.lastValidateResult),
    lastDriftDetectionResult: seen(status.lastDriftDetectionResult, before?.lastDriftDetectionResult),
  };
}

type Own = Pick<Deployment, "spec" | "repo"> | Pick<MalformedDeployment, "problem">;

function ownOf(entry: Deployment | MalformedDeployment): Own {
  return isMalformed(entry) ? { problem: entry.problem } : { repo: entry.repo, spec: entry.spec };
}

function parseSpec(spec: unknown): Own {
  const raw = withoutNulls(spec);
  const parsed = SpecSchema.safeParse(raw ?? {});
  const problems = parsed.error?.issues.map((issue) => problemOf(issue, spec)) ?? [];
  const readable = parsed.data ?? readableFields(raw);
  problems.push(...unsupported(readable), ...badOverrides(readable));
  // Without a Secret it would be deployed to the server's own cluster, which nobody requested.
  if (readable.kubeConfig && !readable.kubeConfig.secretRef) {
    problems.push("spec.kubeConfig.secretRef: is missing; set the name of the Secret with the kubeconfig");
  }
  const source = readable.source && toSource(readable.source, problems);
  if (parsed.data === undefined || source === undefined || problems.length > 0) {
    return { problem: fewOf(problems).join("\n") };
  }
  const repo = source.kind === "git" ? repoId(source.url) : undefined;
  return { repo, spec: toSpec(parsed.data, source) };
}

/** The fields of an invalid spec that are valid by themselves, so that all its problems are reported at once. */
function readableFields(raw: unknown): Partial<RawSpec> {
  const given = z.record(z.string(), z.unknown()).safeParse(raw).data ?? {};
  return Object.fromEntries(
    Object.entries(SpecSchema.shape).map(([name, field]) => [name, field.safeParse(given[name]).data]),
  );
}

function toSpec(raw: RawSpec, source: DeploymentSpec["source"]): DeploymentSpec {
  return {
    source,
    sourceOverrides: (raw.sourceOverrides ?? []).flatMap(({ repoKey, isGroup = false, url }) => {
      const key = parseRepoKey(repoKey);
      return key ? [{ repoKey: key, isGroup, url }] : [];
    }),
    gitCredentials: [
      ...(raw.credentials?.git ?? []).map(({ host, path: glob, secretRef }) => ({
        host,
        path: glob,
        secretName: secretRef.name,
      })),
      // The deprecated fields come after the current one, in the order of kluctl's controller 2.22.
      ...(raw.source.secretRef ? [{ secretName: raw.source.secretRef.name, bySource: true }] : []),
      ...(raw.source.credentials ?? []).map(({ host, pathPrefix = "", secretRef }) => ({
        host,
        path: `${pathPrefix}**`,
        secretName: secretRef.name,
      })),
    ],
    ociCredentials: (raw.credentials?.oci ?? []).map(({ registry, repository, secretRef }) => ({
      registry,
      repository,
      secretName: secretRef.name,
    })),
    helmCredentials: [
      ...(raw.credentials?.helm ?? []).map(({ host, path: glob, secretRef }) => ({
        host,
        path: glob,
        secretName: secretRef.name,
      })),
      ...(raw.helmCredentials ?? []).flatMap(({ secretRef }) =>
        secretRef ? [{ secretName: secretRef.name, bySecret: true }] : [],
      ),
    ],
    intervalMs: parseDuration(raw.interval) ?? 0,
    retryIntervalMs: optionalMs(raw.retryInterval),
    deployIntervalMs: optionalMs(raw.deployInterval),
    validateIntervalMs: optionalMs(raw.validateInterval),
    timeoutMs: optionalMs(raw.timeout),
    suspend: raw.suspend ?? false,
    serviceAccountName: raw.serviceAccountName,
    decryption: raw.decryption && {
      secretName: raw.decryption.secretRef?.name,
      serviceAccountName: raw.decryption.serviceAccount || undefined,
    },
    kubeConfig: raw.kubeConfig?.secretRef && {
      secretName: raw.kubeConfig.secretRef.name,
      key: raw.kubeConfig.secretRef.key || undefined,
    },
    target: raw.target,
    targetNameOverride: raw.targetNameOverride,
    context: raw.context || undefined,
    args: raw.args,
    images: raw.images ?? [],
    dryRun: raw.dryRun,
    noWait: raw.noWait,
    forceApply: raw.forceApply,
    replaceOnError: raw.replaceOnError,
    forceReplaceOnError: raw.forceReplaceOnError,
    abortOnError: raw.abortOnError,
    includeTags: raw.includeTags ?? [],
    excludeTags: raw.excludeTags ?? [],
    includeDeploymentDirs: raw.includeDeploymentDirs ?? [],
    excludeDeploymentDirs: raw.excludeDeploymentDirs ?? [],
    deployMode: raw.deployMode,
    validate: raw.validate,
    prune: raw.prune,
    delete: raw.delete,
    manual: raw.manual ?? false,
    manualObjectsHash: raw.manualObjectsHash || undefined,
  };
}

function optionalMs(text: string | undefined): number | undefined {
  return text === undefined ? undefined : parseDuration(text);
}

/**
 * Fields that would change what is deployed, or how, if they were ignored; with kluctl's messages where it has some.
 */
function unsupported(spec: Partial<RawSpec>): string[] {
  const given: [there: boolean, problem: string][] = [
    [
      (spec.helmCredentials ?? []).some(({ secretRef }) => secretRef === undefined),
      "spec.helmCredentials: an entry references no Secret; set secretRef.name, or switch to spec.credentials.helm",
    ],
  ];
  return given.filter(([there]) => there).map(([, problem]) => problem);
}

function badOverrides({ sourceOverrides = [] }: Partial<RawSpec>): string[] {
  return sourceOverrides.flatMap(({ repoKey }, index) =>
    parseRepoKey(repoKey)
      ? []
      : [
          `spec.sourceOverrides[${index}].repoKey: ${quote(repoKey)} is not a repository key; use e.g. git://host/org/repo`,
        ],
  );
}

// ---------------------------------------------------------------------------------------------------------------
// Messages for users

/** The problems have to fit into the status; a list may have thousands of invalid entries. */
const mostProblems = 20;

function fewOf(problems: readonly string[]): readonly string[] {
  if (problems.length <= mostProblems) return problems;
  return [...problems.slice(0, mostProblems), `and ${problems.length - mostProblems} more`];
}

function problemOf(issue: z.core.$ZodIssue, spec: unknown): string {
  const field = ["spec", ...issue.path.map(String)].join(".");
  const value = issue.path.reduce<unknown>(
    (at, key) => (at as Record<PropertyKey, unknown> | null | undefined)?.[key],
    spec,
  );
  if (issue.code === "invalid_type") {
    if (value === undefined || value === null) return `${field}: is missing; it must be ${wantedOf(issue.expected)}`;
    return `${field}: ${quote(value)} is not ${wantedOf(issue.expected)}`;
  }
  if (issue.code === "invalid_value")
    return `${field}: ${quote(value)} is not one of ${issue.values.map(String).join(", ")}`;
  if (issue.code === "too_small" && typeof value === "string")
    return `${field}: is empty; set a name or remove the field`;
  if (issue.code === "too_big") return `${field}: ${quote(value)} is longer than ${issue.maximum} characters`;
  return `${field}: ${quote(value)} ${issue.message}`;
}

function wantedOf(expected: string): string {
  const words: Record<string, string> = {
    boolean: "true or false",
    string: "a string",
    object: "a map of fields",
    record: "a map of fields",
    array: "a list",
    number: "a number",
  };
  return words[expected] ?? expected;
}

/** A field that is null counts as absent, as for Kubernetes' own clients. The values of `args` are the user's own. */
export function withoutNulls(value: unknown, depth = 0): unknown {
  if (depth > 8 || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== null)
      .map(([name, field]) => [name, name === "args" ? field : withoutNulls(field, depth + 1)]),
  );
}
