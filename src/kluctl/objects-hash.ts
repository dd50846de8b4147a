/** Computes the hash that kluctl's own controller keeps as `lastObjectsHash` from the command line's output. Pure. */
import { createHash } from "node:crypto";
import type { ObjectRef } from "../model.ts";

/** The relevant part of a result's `deployment`: the deployment items in order, nested by includes. */
export interface DeploymentTree {
  readonly deployments?: readonly DeploymentItem[] | null | undefined;
}

interface DeploymentItem {
  readonly renderedObjects?: readonly ObjectRef[] | null | undefined;
  readonly renderedInclude?: DeploymentTree | null | undefined;
}

/**
 * SHA-256 over the SHA-256 of each rendered object's JSON, in deployment order. The JSON must be byte for byte what
 * kluctl wrote, because kluctl hashes the output of the same serializer.
 */
export function objectsHash(tree: DeploymentTree, rendered: readonly string[]): string {
  // Keyed by the identity in the JSON itself: a result names objects by their `kluctl.io/diff-name`, the tree does not.
  const byId = new Map(rendered.map((json) => [idOfJson(json), json]));
  const total = createHash("sha256");
  for (const ref of walk(tree)) {
    const id = idOf(ref);
    // Missing only if two objects share a diff-name; hashing the id instead keeps the result deterministic.
    const json = byId.get(id) ?? id;
    total.update(createHash("sha256").update(json, "utf8").digest());
  }
  return total.digest("hex");
}

function* walk({ deployments }: DeploymentTree): Generator<ObjectRef> {
  for (const { renderedInclude, renderedObjects } of deployments ?? []) {
    if (renderedInclude) yield* walk(renderedInclude);
    else yield* renderedObjects ?? [];
  }
}

function idOf({ group, version, kind, namespace, name }: ObjectRef): string {
  return JSON.stringify([group ?? "", version ?? "", kind, namespace ?? "", name]);
}

function idOfJson(json: string): string {
  const { apiVersion = "", kind = "", metadata = {} } = JSON.parse(json) as Partial<Identity>;
  const slash = apiVersion.indexOf("/");
  const group = slash === -1 ? "" : apiVersion.slice(0, slash);
  return idOf({ group, version: apiVersion.slice(slash + 1), kind, name: "", ...metadata });
}

interface Identity {
  apiVersion: string;
  kind: string;
  metadata: { name?: string; namespace?: string };
}
