import type { DeploymentApi } from "./api.ts";
import { legacyApi } from "./flux-kluctl/api.ts";
import { kluctlApi } from "./kluctl/api.ts";

/** If several have a resource of the same name, the first one wins. */
export const deploymentApis: readonly [DeploymentApi, ...DeploymentApi[]] = [kluctlApi, legacyApi];

export function apiOf({ apiVersion }: { readonly apiVersion?: string | undefined }): DeploymentApi {
  return deploymentApis.find((api) => api.apiVersion === apiVersion) ?? kluctlApi;
}
