/** The periodic sweep: queues what is due and what moved without a webhook. */
import type { Logger } from "../../src/log.ts";
import type { DeploymentChange, Heads, MergeGroupRequest, RepoId, Tag } from "../../src/model.ts";
import type { Retries } from "../../src/reconcile/retries.ts";
import type { Clock, Deployments, Reports } from "../../src/ports.ts";
import { createDueSweep, type DueAt, type SkipCheck } from "./due-sweep.ts";
import type { JobQueue } from "../queue.ts";
import { createRefsSweep, type RefsSweepDeps } from "./refs-sweep.ts";
import { createTagsSweep, type UsedTag } from "./tags-sweep.ts";

export interface SweepDeps {
  readonly deployments: Pick<Deployments, "all"> & { onChange?(callback: (change: DeploymentChange) => void): void };
  /** One `ls-remote` with the deployment's login. */
  readonly heads: RefsSweepDeps["heads"];
  /** Equal for uses that share one `ls-remote`: same remote, same login. */
  readonly groupKey: RefsSweepDeps["groupKey"];
  /** Reads the digest of an artifact's tag with the deployment's login. */
  readonly tag: (used: UsedTag, signal: AbortSignal) => Promise<Tag>;
  /** Equal for uses of the same tag with the same login. */
  readonly tagKey: (used: UsedTag) => string;
  readonly dueAt: DueAt;
  readonly retries: Retries;
  /** Whether to skip a reconciliation that is only due by an interval. Absent: none is skipped. */
  readonly skipCheck?: SkipCheck | undefined;
  readonly queue: Pick<JobQueue, "enqueue" | "markMoved" | "lastMove" | "claim">;
  /** Absent: pull requests are not previewed. */
  readonly reports?: Pick<Reports, "open" | "find"> | undefined;
  /** The groups of a repository's merge queue that no webhook reported. Absent: no status is written. */
  readonly groups?: ((repo: RepoId, heads: Heads) => Promise<readonly MergeGroupRequest[]>) | undefined;
  /** How often each remote is queried, and after how long something that is still due is queued again. */
  readonly everyMs?: (() => number) | undefined;
  /** How often each repository's refs are queried, if that differs. */
  readonly paces?: RefsSweepDeps["paces"];
  readonly tickMs?: number | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?: (NonNullable<RefsSweepDeps["observe"]> & { due(deployments: number): void }) | undefined;
}

export interface Sweep {
  /** Runs all sweeps now, whatever the time; resolves when that is done. */
  runNow(): Promise<void>;
  /** Seconds since everything was last checked. */
  age(): number;
  stop(): Promise<void>;
}

export function startSweep({ everyMs = () => 60_000, tickMs = 1_000, ...deps }: SweepDeps): Sweep {
  const { clock, log, observe } = deps;
  const due = createDueSweep({ ...deps, againMs: everyMs });
  const refs = createRefsSweep({ ...deps, everyMs });
  const tags = createTagsSweep({ ...deps, everyMs });
  deps.deployments.onChange?.((change) => due.note(change));
  let asking: Promise<void> | undefined;
  let failing = false;
  let askedAt = clock.now();

  async function askForDue(): Promise<void> {
    try {
      const count = await due.run();
      if (count > 0) observe?.due(count);
      failing = false;
      askedAt = clock.now();
    } catch (error) {
      if (!failing) log.warn({ error: (error as Error).message }, "could not queue due reconciliations; retrying");
      failing = true;
    }
  }

  function askOnce(): Promise<void> {
    return (asking ??= askForDue().finally(() => (asking = undefined)));
  }

  const timer = setInterval(() => {
    void askOnce();
    refs.tick();
    tags.tick();
  }, tickMs);

  return {
    async runNow() {
      await Promise.all([askOnce(), refs.runAll(), tags.runAll()]);
    },
    age: () => Math.max(refs.age(), (clock.now() - askedAt) / 1_000),
    async stop() {
      clearInterval(timer);
      await Promise.all([asking, refs.stop(), tags.stop()]);
    },
  };
}
