/** Pruning: which objects are deleted, when a user has to confirm it first, and how the result reports it. Pure. */
import { createHash } from "node:crypto";
import type { CommandResult, Doomed, ObjectRef, ResultError, ResultObject } from "../model.ts";
import { annotation } from "../model.ts";
import { rfc3339 } from "../kit/time.ts";

/** Numbers of objects. */
export interface LargePrune {
  readonly doomed: number;
  /** Including the doomed ones. */
  readonly deployed: number;
  /** Whether the project renders no objects at all. */
  readonly empty: boolean;
}

/** From which size a prune that was not requested has to be confirmed. */
export interface PruneGuard {
  /** More than this percentage of the deployed objects … */
  readonly percent: number;
  /** … if at least this many are deployed. */
  readonly fromObjects: number;
}

/**
 * The objects that are no longer in the project, as found by kluctl. Objects that are already being deleted are left
 * out.
 */
export function findDoomed({ objects }: CommandResult): Doomed[] {
  return objects.flatMap(({ ref, orphan, deleted, remote }) => {
    if (!orphan || deleted || remote === undefined) return [];
    const { apiVersion, kind, metadata } = JSON.parse(remote) as RemoteObject;
    const { name, namespace, uid, deletionTimestamp } = metadata;
    return deletionTimestamp === undefined ? [{ ref, apiVersion, kind, name, namespace, uid }] : [];
  });
}

/** kluctl's own message. */
export const noDiscriminator: ResultError = {
  ref: { kind: "", name: "" },
  message: "pruning without a discriminator is not supported",
};

interface RemoteObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
  };
}

export interface PendingPrune {
  /** The value the annotation needs: it identifies exactly these objects. */
  readonly hash: string;
  /** For display. */
  readonly message: string;
}

/**
 * Returns what has to be confirmed if the prune is large: a wrong argument, a renamed target or an include that became
 * empty looks just like a project from which these objects were removed.
 */
export function findWaiting(
  result: CommandResult,
  guard: PruneGuard,
  confirmed: string | undefined,
): PendingPrune | undefined {
  const large = findLargePrune(result, guard);
  const hash = hashOf(findDoomed(result));
  if (large === undefined || confirmed === hash) return undefined;
  const what = large.empty
    ? `The project renders no objects at all, and ${large.deployed} are deployed.`
    : `${large.doomed} of ${large.deployed} deployed objects are no longer in the project.`;
  const message = `${what} They are not pruned until the prune is confirmed: annotate the resource with ${annotation.confirmPrune}=${hash}`;
  return { hash, message };
}

/** The hash that a message asks the user to confirm. */
export function hashToConfirm(message: string): string | undefined {
  return /towline\.dev\/confirm-prune=([0-9a-f]{16})\b/.exec(message)?.[1];
}

/** Returns `undefined` if no confirmation is needed. */
export function findLargePrune(result: CommandResult, guard: PruneGuard): LargePrune | undefined {
  const doomed = findDoomed(result).length;
  const left = result.objects.filter(({ rendered, remote }) => rendered !== undefined && remote !== undefined).length;
  const deployed = left + doomed;
  const empty = result.objects.every(({ rendered }) => rendered === undefined);
  const large = deployed >= guard.fromObjects && doomed * 100 > guard.percent * deployed;
  return doomed > 0 && (empty || large) ? { doomed, deployed, empty } : undefined;
}

/** Whether exactly the objects to be pruned have been confirmed. */
export function isConfirmed(result: CommandResult, confirmed: string | undefined): boolean {
  const doomed = findDoomed(result);
  return doomed.length > 0 && confirmed === hashOf(doomed);
}

function hashOf(doomed: readonly Doomed[]): string {
  const names = doomed.map(({ apiVersion, kind, namespace, name }) =>
    [apiVersion, kind, namespace ?? "", name].join(" "),
  );
  return createHash("sha256").update(names.sort().join("\n")).digest("hex").slice(0, 16);
}

/** The deploy's result as kluctl would have written it if it had pruned as well. */
export function withPruned(
  deployed: CommandResult,
  doomed: readonly Doomed[],
  failed: readonly ResultError[],
  now: number,
): CommandResult {
  const left = new Set(failed.map(({ ref }) => refText(ref)));
  const gone = new Set(doomed.map(({ ref }) => refText(ref)).filter((ref) => !left.has(ref)));
  const isGone = ({ ref, orphan }: Pick<ResultObject, "ref" | "orphan">) => orphan && gone.has(refText(ref));
  const { document } = deployed;
  const compacted = (document["compactedObjects"] ?? []) as readonly CompactedObject[];
  return {
    ...deployed,
    objects: deployed.objects.map((object) => (isGone(object) ? { ...object, orphan: false, deleted: true } : object)),
    errors: [...deployed.errors, ...failed],
    document: {
      ...document,
      command: { ...(document["command"] as object), endTime: rfc3339(now) },
      compactedObjects: compacted.map(({ orphan = false, ...rest }) =>
        isGone({ ref: rest.ref, orphan }) ? { ...rest, deleted: true } : { ...rest, ...(orphan && { orphan }) },
      ),
      ...(failed.length > 0 && { errors: [...deployed.errors, ...failed] }),
    },
  };
}

interface CompactedObject {
  readonly ref: ObjectRef;
  readonly orphan?: boolean;
}

function refText({ group, kind, namespace, name }: ObjectRef): string {
  return [group ?? "", kind, namespace ?? "", name].join("/");
}
