/** `gitops.kluctl.io/v1beta1`, the API of kluctl's own controller. The model's status and requests are its own. */
import { manualResultField, requestAnnotation, finalizer } from "../../model.ts";
import type { DeploymentApi } from "../api.ts";
import { parseDeployment } from "./custom-resource.ts";
import { parseOverridden } from "./override-patch.ts";

export const kluctlApi: DeploymentApi = {
  name: "kluctl's API",
  apiVersion: "gitops.kluctl.io/v1beta1",
  what: "the KluctlDeployments",
  missing: "their CRD is not installed; apply chart/files/kluctldeployments.yaml",
  isOptional: false,
  finalizer,
  requests: ["reconcile", "diff", "deploy", "prune", "validate", "approve"],
  reconcilesSuspended: true,
  requestPatch(kind, { id: requestValue, resourceVersion }) {
    return {
      metadata: { resourceVersion, annotations: { [requestAnnotation(kind)]: JSON.stringify({ requestValue }) } },
    };
  },
  answerTo(kind, { id }, { status }) {
    const result = status[manualResultField(kind)];
    return result?.request.requestValue === id && result.endTime ? result : undefined;
  },
  startParser: () => ({ parse: parseDeployment }),
  createReader: () => (resource, known) => Promise.resolve(parseDeployment(resource, known)),
  override: parseOverridden,
};
