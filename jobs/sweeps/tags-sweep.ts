/**
 * Detects moved tags in registries, which send no webhooks, of sources and of artifacts that projects include: queries each tag once per period and compares its digest
 * with the previous one. No status contains digests, so the previous digest is only known since this process started; a
 * move between two processes is found by the next interval check. Each replica queries on its own.
 */
import type { Logger } from "../../src/log.ts";
import { withTimeout } from "../../src/kit/deadline.ts";
import { createLimit } from "../../src/kit/limit.ts";
import {
  type AnyDeployment,
  type Deployment,
  isMalformed,
  keyText,
  type OciSource,
  type ReconcileRequest,
  type Tag,
} from "../../src/model.ts";
import { includedArtifacts } from "../../src/model/includes.ts";
import { readyCondition } from "../../src/reconcile/status/conditions.ts";
import type { Clock, Deployments, Queue } from "../../src/ports.ts";
import { createRotation, type Group } from "./rotation.ts";

export interface TagsSweepDeps {
  readonly deployments: Pick<Deployments, "all">;
  /** Reads the tag's digest with the deployment's login. */
  readonly tag: (used: UsedTag, signal: AbortSignal) => Promise<Tag>;
  /** Equal for uses that share one query: same tag, same login. */
  readonly tagKey: (used: UsedTag) => string;
  readonly queue: Pick<Queue, "enqueue">;
  readonly everyMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A tag, and a deployment that follows it or whose project includes it. */
export interface UsedTag {
  readonly deployment: Deployment;
  readonly source: OciSource;
  readonly cause: "sweep" | "include";
}

export interface TagsSweep {
  /** Starts to check the tags that are due. Returns at once and never throws. */
  tick(): void;
  /** Checks all tags now; resolves when that is done. */
  runAll(): Promise<void>;
  stop(): Promise<void>;
}

const looksAtOnce = 4;
const lookTimeoutMs = 60_000;
const longestBackoffMs = 600_000;

/** The uses that share a tag and a login. */
interface TagGroup extends Group<UsedTag> {
  digest: string | undefined;
  /** By deployment: its last check when it was requested because of the last move. */
  requested: ReadonlyMap<string, string | undefined>;
}

export function createTagsSweep(deps: TagsSweepDeps): TagsSweep {
  const { deployments, queue, everyMs, clock, log } = deps;
  const stopped = new AbortController();
  const limit = createLimit(looksAtOnce);
  const create = (): Pick<TagGroup, "digest" | "requested"> => ({ digest: undefined, requested: new Map() });
  const rotation = createRotation({ everyMs, clock, keyOf: deps.tagKey, create });
  const regroup = () => rotation.regroup(deployments.all().flatMap(tagsOf));

  function tick(): void {
    if (stopped.signal.aborted) return;
    regroup();
    const now = clock.now();
    for (const group of rotation.all()) {
      if (group.failures === 0) group.nextAt = Math.min(group.nextAt, now + everyMs()); // the interval may have been shortened
      if (group.nextAt > now || group.looking) continue;
      group.nextAt = now + everyMs();
      void rotation.look(group, () => limit.run(() => look(group)));
    }
  }

  async function look(group: TagGroup): Promise<void> {
    const [first] = group.members;
    if (first === undefined || stopped.signal.aborted) return;
    const artifact = first.source.url;
    try {
      const signal = withTimeout(lookTimeoutMs, stopped.signal);
      const { digest, checkedOut } = await deps.tag(first, signal);
      group.failures = 0;
      const before = group.digest ?? checkedOut;
      const isMoved = digest !== undefined && before !== undefined && digest !== before;
      const concerned = isMoved ? group.members : group.members.filter((used) => isLost(used, group.requested));
      if (concerned.length > 0) {
        await queue.enqueue(concerned.map(toRequest));
        const message = isMoved ? "found a moved tag" : "requested again after a moved tag";
        log.info({ artifact, digest, deployments: concerned.length }, message);
      }
      if (isMoved)
        group.requested = new Map(
          concerned.map(({ deployment }) => [keyText(deployment.key), lastCheckOf(deployment)]),
        );
      group.digest = digest ?? group.digest;
    } catch (error) {
      if (stopped.signal.aborted) return;
      const asText = { artifact, error: (error as Error).message };
      if (group.failures === 0) log.debug(asText, "registry unreachable; checking less often");
      rotation.backOff(group, Math.max(longestBackoffMs, everyMs()));
    }
  }

  return {
    tick,
    async runAll() {
      regroup();
      rotation.hurry();
      tick();
      await rotation.idle();
    },
    async stop() {
      stopped.abort();
      await rotation.idle();
    },
  };
}

/**
 * Whether Redis may have lost the request that was made when the tag moved: the deployment has not been checked since,
 * and neither failed nor is blocked, which would repeat the work.
 */
function isLost({ deployment }: UsedTag, requested: TagGroup["requested"]): boolean {
  if (deployment.recordsChecks === false) return false;
  const key = keyText(deployment.key);
  const isReady = readyCondition(deployment.status)?.status === "True";
  return isReady && requested.has(key) && requested.get(key) === lastCheckOf(deployment);
}

function lastCheckOf({ status }: Deployment): string | undefined {
  return status.lastDriftDetectionResult?.endTime;
}

function toRequest({ deployment: { key, repo }, cause }: UsedTag): ReconcileRequest {
  return { kind: "reconcile", deployment: key, cause, ...(cause === "include" && repo !== undefined && { repo }) };
}

/** The tags whose moves can affect the deployment. One that has never been reconciled is due anyway. */
function tagsOf(deployment: AnyDeployment): UsedTag[] {
  if (isMalformed(deployment) || deployment.deletionTimestamp !== undefined) return [];
  const { spec, status } = deployment;
  if (spec.suspend || status.observedGeneration === undefined) return [];
  const { source } = spec;
  const followed = source.kind === "oci" && source.ref.digest === undefined ? [source] : [];
  return [
    ...followed.map((one): UsedTag => ({ deployment, source: one, cause: "sweep" })),
    ...includedArtifacts(deployment).map((one): UsedTag => ({ deployment, source: one, cause: "include" })),
  ];
}
