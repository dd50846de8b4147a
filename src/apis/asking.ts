/**
 * How a request is made of a deployment: the patch that `kluctl gitops`, kluctl's web UI, our command line and our page
 * send.
 */
import { type Key, type ManualKind, requestAnnotation } from "../model.ts";
import { resourcePath } from "./kluctl/custom-resource.ts";
import { legacyAnnotation, legacyApiVersion, legacyPath } from "./flux-kluctl/resource.ts";

/** The field manager of kluctl's own tools, so that theirs and ours are one owner of the fields. */
export const askingManager = "kluctl";

type Patch = Readonly<Record<string, unknown>>;

/** With a `resourceVersion`, the patch is rejected if the resource has changed since it was read. */
export function requestPatch(kind: ManualKind, requestValue: string, resourceVersion?: string): Patch {
  const annotations = { [requestAnnotation(kind)]: JSON.stringify({ requestValue }) };
  return { metadata: { resourceVersion, annotations } };
}

/** The legacy API has two requests, and each consists of a name only. */
export function legacyRequestPatch(kind: keyof typeof legacyAnnotation, requestValue: string): Patch {
  return { metadata: { annotations: { [legacyAnnotation[kind]]: requestValue } } };
}

export function suspendPatch(suspend: boolean): Patch {
  return { spec: { suspend: suspend || null } };
}

/** Approves the objects that render to this hash; rejected if the resource has changed since the user saw it. */
export function approvePatch(objectsHash: string, resourceVersion: string): Patch {
  return { metadata: { resourceVersion }, spec: { manualObjectsHash: objectsHash } };
}

export function isLegacy({ apiVersion }: { readonly apiVersion?: string | undefined }): boolean {
  return apiVersion === legacyApiVersion;
}

/** The path of a resource of either API. */
export function addressOf({ namespace, name }: Key, legacy: boolean): string {
  const place = `namespaces/${encodeURIComponent(namespace)}/kluctldeployments/${encodeURIComponent(name)}`;
  return `${legacy ? legacyPath : resourcePath}/${place}`;
}
