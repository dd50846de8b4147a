/** Kinds of resources that a cluster may or may not have: their paths, and whether they are served. */
import { setTimeout as sleep } from "node:timers/promises";
import type { KubeClient } from "./client.ts";
import { readOrNothing } from "./read-or-nothing.ts";

export interface Kind {
  /** `group/version` */
  readonly apiVersion: string;
  /** As in paths: `gitrepositories`. */
  readonly plural: string;
}

/** Where the API of `group/version`, or of the core group's `version`, begins. */
export function rootOf(apiVersion: string): string {
  return apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
}

/** The path of the list in one namespace, or in all of them. */
export function collectionOf({ apiVersion, plural }: Kind, namespace: string | undefined): string {
  const place = namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
  return `/apis/${apiVersion}${place}/${plural}`;
}

/** Whether the cluster has the definition in this version. Throws ApiError. */
export async function isKindServed(
  client: Pick<KubeClient, "request">,
  { apiVersion, plural }: Kind,
  signal?: AbortSignal,
): Promise<boolean> {
  const list = (await readOrNothing(client, `/apis/${apiVersion}`, signal)) as ResourceNames | undefined;
  return list?.resources?.some(({ name }) => name === plural) ?? false;
}

interface ResourceNames {
  readonly resources?: readonly { readonly name?: string }[];
}

/** Lists the resources once; `undefined` if the cluster does not have the definition. Throws ApiError. */
export async function listKind<T>(
  client: Pick<KubeClient, "list" | "request">,
  kind: Kind & { readonly parse: (resource: unknown) => T | undefined },
  namespaces: readonly string[],
  labelSelector?: string,
): Promise<readonly T[] | undefined> {
  if (!(await isKindServed(client, kind))) return undefined;
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  const lists = await Promise.all(
    places.map((place) => client.list(collectionOf(kind, place), { query: { labelSelector } })),
  );
  return lists.flatMap(({ items }) => items.flatMap((item) => kind.parse(item) ?? []));
}

export interface LookingDeps {
  /** Checks what the cluster has, and follows that. */
  readonly look: () => Promise<void>;
  readonly failed: (error: Error) => void;
  /** A check that failed is repeated within a second. */
  readonly everyMs: number;
  readonly signal: AbortSignal;
}

/** A cluster without the kind costs one small request per period. Resolves when aborted. */
export async function keepLooking({ look, failed, everyMs, signal }: LookingDeps): Promise<void> {
  while (!signal.aborted) {
    let ms = everyMs;
    try {
      await look();
    } catch (error) {
      ms = Math.min(everyMs, 1_000);
      if (!signal.aborted) failed(error as Error);
    }
    await sleep(ms, undefined, { signal }).catch(() => undefined);
  }
}
