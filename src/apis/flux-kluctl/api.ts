/**
 * `flux.kluctl.io/v1alpha1`, the API of the controller that preceded kluctl's own: its resources are read as those of
 * kluctl's API would be, and written to in their own terms.
 */
import { applyMergePatch } from "../../kit/merge-patch.ts";
import type { JsonObject } from "../../kit/json.ts";
import { isMalformed, keyText } from "../../model.ts";
import type { DeploymentApi } from "../api.ts";
import { parseResource } from "../resource.ts";
import { pendingRequest, toEntry } from "./entry.ts";
import { createGitRepositories } from "./git-repositories.ts";
import { createContextReader } from "./read-context.ts";
import { legacyAnnotation, legacyApiVersion, legacyFinalizer } from "./resource.ts";
import { referencesOf } from "./translate-spec.ts";
import { parseLegacyStatus, toLegacyPatch, toNewerStatus } from "./translate-status.ts";

export const legacyApi: DeploymentApi = {
  name: "the legacy API",
  apiVersion: legacyApiVersion,
  what: "the legacy KluctlDeployments (flux.kluctl.io)",
  missing: "their definition was removed from the cluster",
  isOptional: true,
  finalizer: legacyFinalizer,
  fieldManager: "gotk-flux-kluctl-controller",
  foreignHashes: "flux-kluctl-controller computes the hash in its status differently",
  requests: ["reconcile", "deploy"],
  reconcilesSuspended: false,
  // A request consists of a name only; `flux reconcile` writes the time.
  requestPatch(kind, { at }) {
    if (kind !== "reconcile" && kind !== "deploy") throw new Error(`${legacyApiVersion} has no request to ${kind}`);
    return { metadata: { annotations: { [legacyAnnotation[kind]]: at } } };
  },
  answerTo(kind, { at }, _deployment, resource) {
    const { lastHandledReconcileAt, lastHandledDeployAt } = parseLegacyStatus(parseResource(resource)?.status);
    return (kind === "deploy" ? lastHandledDeployAt : lastHandledReconcileAt) === at ? {} : undefined;
  },

  /** Credentials are not read here: the worker that reconciles the deployment reads the ones it references. */
  startParser({ onChange, ...deps }) {
    const repositories = createGitRepositories({
      ...deps,
      onChange: (key) => onChange((resource) => repositoryOf(resource) === keyText(key)),
    });
    return {
      parse(object, known) {
        const resource = parseResource(object);
        if (resource === undefined) return undefined;
        const { gitRepository: key } = referencesOf(resource.spec, resource.metadata.namespace);
        const gitRepository = key && repositories.find(key);
        return gitRepository === "pending"
          ? "pending"
          : toEntry(resource, { gitRepository }, known?.(resource.metadata));
      },
      references: repositories,
    };
  },
  createReader(deps) {
    const readContext = createContextReader(deps);
    return async (object, known) => {
      const resource = parseResource(object);
      return resource && toEntry(resource, await readContext(resource), known?.(resource.metadata));
    };
  },

  toStatus({ spec, status }, patch, { deployRequest }, known) {
    const now = toNewerStatus(parseLegacyStatus(status));
    const { target, targetNameOverride, prune, validate } = spec;
    const context = {
      ref: known && !isMalformed(known) && known.spec.source.kind === "git" ? known.spec.source.ref : {},
      target: typeof target === "string" ? target : undefined,
      targetNameOverride: typeof targetNameOverride === "string" ? targetNameOverride : undefined,
      prune: prune === true,
      validate: validate !== false,
    };
    const translated = toLegacyPatch(patch, applyMergePatch(now, patch) as JsonObject, context);
    // Only the request that this reconciliation has read counts as handled: a later one has to wait for the next.
    const handled = "observedGeneration" in patch ? deployRequest : undefined;
    return handled === undefined ? translated : { ...translated, lastHandledDeployAt: handled };
  },
  /** A deploy request counts as handled when the deploy is done. */
  acknowledge(resource, requestValue) {
    const requested = resource.metadata.annotations[legacyAnnotation.reconcile];
    if (pendingRequest(resource) !== requestValue || requested === undefined) return undefined;
    return { lastHandledReconcileAt: requested };
  },
  handOver({ status }) {
    return parseLegacyStatus(status).readyForMigration === true ? undefined : { readyForMigration: true };
  },
};

function repositoryOf(object: unknown): string | undefined {
  const resource = parseResource(object);
  const { gitRepository } = resource ? referencesOf(resource.spec, resource.metadata.namespace) : {};
  return gitRepository && keyText(gitRepository);
}
