/** Parses a KluctlDeployment as a project renders it, which may not be in the cluster. */
import { isRecord } from "../../kit/json.ts";
import type { Deployment, MalformedDeployment } from "../../model.ts";
import { parseDeployment } from "./custom-resource.ts";

/**
 * The UID is empty if the manifest has none. Returns `undefined` if it is no KluctlDeployment, or has no name or namespace.
 */
export function parseManifest(manifest: unknown): Deployment | MalformedDeployment | undefined {
  if (!isRecord(manifest) || !isRecord(manifest["metadata"])) return undefined;
  const { metadata, ...rest } = manifest as Manifest;
  if (rest["apiVersion"] !== "gitops.kluctl.io/v1beta1" || rest["kind"] !== "KluctlDeployment") return undefined;
  const isLive = typeof metadata["uid"] === "string" && metadata["uid"] !== "";
  const parsed = parseDeployment({ ...rest, metadata: { ...metadata, ...(!isLive && { uid: "none" }) } });
  return parsed && !isLive ? { ...parsed, uid: "" } : parsed;
}

interface Manifest extends Readonly<Record<string, unknown>> {
  readonly metadata: Readonly<Record<string, unknown>>;
}
