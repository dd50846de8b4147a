/** Requests the deployments whose projects include a ref that has moved since they rendered it. */
import type { Logger } from "../../src/log.ts";
import { keyText, type Heads, type ReconcileRequest } from "../../src/model.ts";
import type { Clock, Deployments } from "../../src/ports.ts";
import type { JobQueue } from "../queue.ts";
import { type IncludedRemote, remotesOf } from "./remotes.ts";
import { silenceMs } from "./silence.ts";

export interface IncludeMovesDeps {
  readonly deployments: Pick<Deployments, "all">;
  readonly queue: Pick<JobQueue, "enqueue" | "markMoved">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?: { found(deployments: number): void } | undefined;
}

export interface IncludeMoves {
  /**
   * Compares what the deployments have recorded with where the refs of the remote are. `periodMs`: how often it is asked. A
   * deployment is requested once for each position of the refs, and again only if nothing has become of that request.
   */
  request(members: readonly IncludedRemote[], heads: Heads, periodMs: number): Promise<void>;
  /** Only these uses exist. */
  forgetOthers(members: readonly IncludedRemote[]): void;
}

interface Asked {
  /** The refs and where they were. */
  readonly heads: string;
  /** That of the deployment. Each reconciliation changes it. */
  readonly resourceVersion: string;
  readonly times: number;
  readonly againAt: number;
}

export function createIncludeMoves({ deployments, queue, clock, log, observe }: IncludeMovesDeps): IncludeMoves {
  const asked = new Map<string, Asked>();

  async function request(members: readonly IncludedRemote[], heads: Heads, periodMs: number): Promise<void> {
    const now = clock.now();
    const behind = new Set(members.filter((one) => differs(one, heads, now)).map(nameOf));
    const [first] = members;
    if (first === undefined || behind.size === 0) return;
    // Some may have caught up since they were grouped.
    const moved = deployments
      .all()
      .flatMap(remotesOf)
      .filter((one) => one.use === "include")
      .filter((one) => behind.has(nameOf(one)) && differs(one, heads, now));
    if (moved.length === 0) return;
    // As for a push that a webhook reports: the job gets no earlier answer for its own repository either.
    const repos = new Set(moved.flatMap(({ repo, deployment }) => [repo, deployment.repo ?? repo]));
    for (const repo of repos) await queue.markMoved(repo);
    await queue.enqueue(moved.map(toRequest));
    for (const one of moved) {
      const name = nameOf(one);
      const where = placeOf(one, heads);
      const before = asked.get(name);
      const times = before?.heads === where ? before.times + 1 : 0;
      const { resourceVersion } = one.deployment;
      asked.set(name, { heads: where, resourceVersion, times, againAt: now + silenceMs(times, periodMs) });
    }
    log.info({ repo: first.repo, deployments: moved.length }, "found new commits of an included repository");
    observe?.found(moved.length);
  }

  /**
   * Whether to reconcile the deployment. If it was reconciled and still differs, another request would end in the same way,
   * for example because its own commit cannot be rendered. A request that changed nothing at all may have been lost.
   */
  function differs(remote: IncludedRemote, heads: Heads, now: number): boolean {
    const name = nameOf(remote);
    if (remote.recorded.every(({ ref, commit }) => heads.commits.get(ref) === commit)) {
      asked.delete(name);
      return false;
    }
    const before = asked.get(name);
    if (before?.heads !== placeOf(remote, heads)) return true;
    return before.resourceVersion === remote.deployment.resourceVersion && now >= before.againAt;
  }

  return {
    request,
    forgetOthers(members) {
      const known = new Set(members.map(nameOf));
      for (const name of asked.keys()) if (!known.has(name)) asked.delete(name);
    },
  };
}

function nameOf({ deployment, url }: IncludedRemote): string {
  return `${keyText(deployment.key)} ${url}`;
}

function placeOf({ recorded }: IncludedRemote, { commits }: Heads): string {
  return recorded.map(({ ref }) => `${ref} ${commits.get(ref) ?? ""}`).join("\n");
}

function toRequest({ deployment: { key, repo } }: IncludedRemote): ReconcileRequest {
  return { kind: "reconcile", deployment: key, cause: "include", ...(repo !== undefined && { repo }) };
}
