import { ApiError } from "../errors.ts";
import type { KubeClient } from "./client.ts";

/** Reads a resource. Resolves to `undefined` on 404. */
export async function readOrNothing(
  client: Pick<KubeClient, "request">,
  path: string,
  signal?: AbortSignal,
): Promise<unknown> {
  try {
    return await client.request({ method: "GET", path, signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}
