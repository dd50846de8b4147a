/**
 * How somebody asks something of a deployment: the patch by which `kluctl gitops`, kluctl's web UI, our command line and our
 * page do it.
 */
import { type Key, type ManualKind, requestAnnotation } from "../model.ts";
import { resourcePath } from "./custom-resource.ts";
import { legacyAnnotation, legacyApiVersion, legacyPath } from "./legacy/resource.ts";

/** As which kluctl's own tools write, so that theirs and ours are one owner of the fields. */
export const askingManager = "kluctl";

type Patch = Readonly<Record<string, unknown>>;

/** With a `resourceVersion`, only as long as the resource is still the one that was read. */
export function requestPatch(kind: ManualKind, requestValue: string, resourceVersion?: string): Patch {
  const annotations = { [requestAnnotation(kind)]: JSON.stringify({ requestValue }) };
  return { metadata: { resourceVersion, annotations } };
}

/** The older API has two requests, which are names only. */
export function legacyRequestPatch(kind: keyof typeof legacyAnnotation, requestValue: string): Patch {
  return { metadata: { annotations: { [legacyAnnotation[kind]]: requestValue } } };
}

export function suspendPatch(suspend: boolean): Patch {
  return { spec: { suspend: suspend || null } };
}

/** Says yes to what renders to this hash, and only as long as the resource is still the one that was looked at. */
export function approvePatch(objectsHash: string, resourceVersion: string): Patch {
  return { metadata: { resourceVersion }, spec: { manualObjectsHash: objectsHash } };
}

export function isLegacy({ apiVersion }: { readonly apiVersion?: string | undefined }): boolean {
  return apiVersion === legacyApiVersion;
}

/** Where a resource of either API is. */
export function addressOf({ namespace, name }: Key, legacy: boolean): string {
  const place = `namespaces/${encodeURIComponent(namespace)}/kluctldeployments/${encodeURIComponent(name)}`;
  return `${legacy ? legacyPath : resourcePath}/${place}`;
}
