/** A KluctlDeployment of `flux.kluctl.io/v1alpha1`, the API of the controller that preceded kluctl's own. */

export const legacyApiVersion = "flux.kluctl.io/v1alpha1";
export const legacyFinalizer = "finalizers.flux.kluctl.io";

/** The annotations stay on the resource; the status records which of them have been handled. */
export const legacyAnnotation = {
  reconcile: "reconcile.fluxcd.io/requestedAt",
  deploy: "deploy.flux.kluctl.io/requestedAt",
} as const;
