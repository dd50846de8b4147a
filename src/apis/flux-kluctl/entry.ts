/** Converts a legacy KluctlDeployment to the model that the rest of the server uses. Pure. */
import type { ApiResource } from "../resource.ts";
import type { JsonObject } from "../../kit/json.ts";
import {
  type AnyDeployment,
  type DeploymentIdentity,
  finalizer,
  isMalformed,
  type MalformedDeployment,
  requestAnnotation,
} from "../../model.ts";
import { parseDeployment } from "../kluctl/custom-resource.ts";
import { legacyAnnotation, legacyApiVersion, legacyFinalizer } from "./resource.ts";
import { translateSpec, type TranslationContext, withAnnotations } from "./translate-spec.ts";
import { parseLegacyStatus, toNewerStatus } from "./translate-status.ts";

export type EntryContext = Omit<TranslationContext, "namespace">;

/** `known`: the deployment of the same name as it was translated before. */
export function toEntry(
  resource: ApiResource,
  context: EntryContext,
  known?: AnyDeployment,
): AnyDeployment | undefined {
  const { metadata, spec } = resource;
  const translation = translateSpec(spec, { namespace: metadata.namespace, ...context });
  const translated = {
    metadata: {
      ...metadata,
      annotations: { ...withAnnotations(metadata.annotations, translation), ...requestAnnotations(resource) },
      finalizers: metadata.finalizers.map((name) => (name === legacyFinalizer ? finalizer : name)),
    },
    spec: translation.spec,
    status: toNewerStatus(parseLegacyStatus(resource.status)),
  };
  const entry = parseDeployment(translated, undefined, known?.uid === metadata.uid ? known.status : undefined);
  if (entry === undefined) return undefined;
  const { problems } = translation;
  if (problems.length > 0) return toMalformed(entry, problems.join("\n"));
  if (isMalformed(entry)) return toMalformed(entry, inOlderWords(entry.problem, spec));
  return {
    ...entry,
    ...itsOwn(entry, context),
    spec: { ...entry.spec, deployOnChanges: spec["deployOnChanges"] !== false },
    deployRequest: pendingDeploy(resource),
  };

  function toMalformed(identity: DeploymentIdentity, problem: string): MalformedDeployment {
    const { key, uid, generation, annotations, labels, finalizers, deletionTimestamp, status } = identity;
    const base = { key, uid, generation, annotations, labels, finalizers, deletionTimestamp, status };
    return { ...base, ...itsOwn(identity, context), problem };
  }
}

/** The version also changes with the GitRepository. */
function itsOwn({ resourceVersion }: DeploymentIdentity, { gitRepository }: EntryContext) {
  const version = typeof gitRepository === "object" ? gitRepository.resourceVersion : (gitRepository ?? "none");
  return {
    apiVersion: legacyApiVersion,
    resourceVersion: `${resourceVersion}/${version}`,
    recordsChecks: false as const,
  };
}

/** Requests to a suspended resource are ignored, as the legacy controller did. */
function requestAnnotations(resource: ApiResource): Record<string, string> {
  const value = pendingRequest(resource);
  return value === undefined ? {} : { [requestAnnotation("reconcile")]: value };
}

/** Returns the request that the status does not answer yet, as the current API's annotation would have it. */
export function pendingRequest(resource: ApiResource): string | undefined {
  const reconcile = pending(resource, legacyAnnotation.reconcile, "lastHandledReconcileAt");
  const deploy = pendingDeploy(resource);
  return deploy === undefined ? reconcile : `deploy ${deploy}`;
}

/** Returns the request to deploy even if nothing changed. */
function pendingDeploy(resource: ApiResource): string | undefined {
  return pending(resource, legacyAnnotation.deploy, "lastHandledDeployAt");
}

function pending(
  { metadata, spec, status }: ApiResource,
  name: string,
  handled: "lastHandledReconcileAt" | "lastHandledDeployAt",
): string | undefined {
  const value = metadata.annotations[name] || undefined;
  return spec["suspend"] === true || parseLegacyStatus(status)[handled] === value ? undefined : value;
}

/** Problems are found in the translated resource, but their reader wrote the original: this renames the fields. */
function inOlderWords(problem: string, { sourceRef, source }: JsonObject): string {
  const viaFlux = source === undefined && sourceRef !== undefined;
  return problem
    .replaceAll("spec.source.git.path", viaFlux ? "spec.path" : "spec.source.path")
    .replaceAll("spec.source.git.", viaFlux ? "spec.sourceRef: its GitRepository's spec." : "spec.source.")
    .replaceAll("spec.credentials.helm", "spec.helmCredentials");
}
