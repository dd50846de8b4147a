/** The kind of an object as any API server, or a project, may write it. Pure. */
import type { JsonObject } from "../kit/json.ts";

/** `""` for the core group. */
export function groupOfVersion(apiVersion: string): string {
  return apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
}

/** Group and kind, such as `apps/Deployment` and `/Pod`. */
export function kindIdOf({ apiVersion, kind }: JsonObject): string {
  return `${groupOfVersion(String(apiVersion))}/${String(kind)}`;
}
