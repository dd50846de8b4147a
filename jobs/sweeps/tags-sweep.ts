/**
 * Detects moved tags in registries, which send no webhooks: queries each tag once per period and compares its digest
 * with the previous one. No status contains digests, so the previous digest is only known since this process started; a
 * move between two processes is found by the next interval check. Each replica queries on its own.
 */
import type { Logger } from "../../src/log.ts";
import { withTimeout } from "../../src/kit/deadline.ts";
import { createLimit } from "../../src/kit/limit.ts";
import { isMalformed, type Deployment, type MalformedDeployment, type OciDeployment } from "../../src/model.ts";
import type { Clock, Deployments, Queue, Tag } from "../../src/ports.ts";
import { fractionOf } from "./due-sweep.ts";

export interface TagsSweepDeps {
  readonly deployments: Pick<Deployments, "all">;
  /** Reads the tag's digest with this deployment's login. */
  readonly tag: (deployment: OciDeployment, signal: AbortSignal) => Promise<Tag>;
  /** Equal for deployments that share one query: same tag, same login. */
  readonly tagKey: (deployment: OciDeployment) => string;
  readonly queue: Pick<Queue, "enqueue">;
  readonly everyMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
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

/** The deployments that share a tag and a login. */
interface Group {
  members: readonly OciDeployment[];
  digest: string | undefined;
  nextAt: number;
  failures: number;
  looking: Promise<void> | undefined;
}

export function createTagsSweep(deps: TagsSweepDeps): TagsSweep {
  const { deployments, queue, everyMs, clock, log } = deps;
  const stopped = new AbortController();
  const limit = createLimit(looksAtOnce);
  let groups = new Map<string, Group>();

  function regroup(): void {
    const now = clock.now();
    const tracked = Map.groupBy(deployments.all().filter(isTracked), deps.tagKey);
    groups = new Map(
      [...tracked].map(([key, members]) => {
        const known = groups.get(key);
        if (known) return [key, Object.assign(known, { members })];
        const nextAt = now + fractionOf(key) * Math.min(everyMs(), 5_000);
        return [key, { members, digest: undefined, nextAt, failures: 0, looking: undefined }];
      }),
    );
  }

  function tick(): void {
    if (stopped.signal.aborted) return;
    regroup();
    const now = clock.now();
    for (const group of groups.values()) {
      if (group.failures === 0) group.nextAt = Math.min(group.nextAt, now + everyMs()); // the interval may have been shortened
      if (group.nextAt > now || group.looking) continue;
      group.nextAt = now + everyMs();
      group.looking = limit.run(() => look(group)).finally(() => (group.looking = undefined));
    }
  }

  async function look(group: Group): Promise<void> {
    const [first] = group.members;
    if (first === undefined || stopped.signal.aborted) return;
    const artifact = first.spec.source.url;
    try {
      const signal = withTimeout(lookTimeoutMs, stopped.signal);
      const { digest, checkedOut } = await deps.tag(first, signal);
      group.failures = 0;
      const before = group.digest ?? checkedOut;
      if (digest !== undefined && before !== undefined && digest !== before) {
        await queue.enqueue(
          group.members.map(({ key }) => ({ kind: "reconcile", deployment: key, cause: "sweep" }) as const),
        );
        log.info({ artifact, digest, deployments: group.members.length }, "found a moved tag");
      }
      group.digest = digest ?? group.digest;
    } catch (error) {
      if (stopped.signal.aborted) return;
      const asText = { artifact, error: (error as Error).message };
      if (group.failures++ === 0) log.debug(asText, "registry unreachable; checking less often");
      group.nextAt = clock.now() + Math.min(everyMs() * 2 ** group.failures, Math.max(longestBackoffMs, everyMs()));
    }
  }

  return {
    tick,
    async runAll() {
      regroup();
      for (const group of groups.values()) group.nextAt = -Infinity;
      tick();
      await Promise.all([...groups.values()].map(async ({ looking }) => looking));
    },
    async stop() {
      stopped.abort();
      await Promise.all([...groups.values()].map(async ({ looking }) => looking));
    },
  };
}

/** Whether a move of its tag can affect the deployment. One that has never been reconciled is due anyway. */
function isTracked(deployment: Deployment | MalformedDeployment): deployment is OciDeployment {
  if (isMalformed(deployment) || deployment.deletionTimestamp !== undefined) return false;
  const { spec, status } = deployment;
  const followsTag = spec.source.kind === "oci" && spec.source.ref.digest === undefined;
  return followsTag && !spec.suspend && status.observedGeneration !== undefined;
}
