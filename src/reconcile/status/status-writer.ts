/**
 * Step 12 of a push: writes the status: progress during the reconciliation, everything else at its end. The job is
 * acknowledged only after that, so that a job which runs twice finds its work done.
 */
import type { Deployment, DeploymentStatus, MalformedDeployment, StatusPatch } from "../../model.ts";
import type { Clock, Deployments } from "../../ports.ts";
import type { Logger } from "../../log.ts";
import { rfc3339 } from "../../kit/time.ts";
import { mergePatch } from "../../kit/merge-patch.ts";
import { toConditions, type Verdict } from "./conditions.ts";

export interface StatusWriter {
  /** The status as it will be once everything is written. */
  readonly current: DeploymentStatus;
  /** Whether any step has been reported yet. */
  readonly hasProgress: boolean;
  /** Sets fields; they are written with the next step. `null` removes one. */
  set(patch: Partial<Record<keyof DeploymentStatus, unknown>>): void;
  /** Reports the current step. The write runs in the background: nothing waits for it. */
  progress(message: string, ready?: Verdict): void;
  /**
   * Like `progress`, but resolves once it is written: nothing that depends on it may start before. Throws if it cannot
   * be written. Resolves to the generation that the resource had then, if it is known.
   */
  save(message: string, ready?: Verdict): Promise<number | undefined>;
  /** Resolves once pending writes have ended, successfully or not. */
  settled(): Promise<void>;
  /** Writes the final status, before the job is acknowledged. Throws if it cannot be written. */
  finish(ready: Verdict | undefined): Promise<void>;
}

type Writable = { -readonly [K in keyof DeploymentStatus]: DeploymentStatus[K] };

export function createStatusWriter(
  { patchStatus }: Pick<Deployments, "patchStatus">,
  deployment: Deployment | MalformedDeployment,
  clock: Clock,
  log: Logger,
  /** Aborts pending writes, because another worker may write by now. */
  signal?: AbortSignal,
): StatusWriter {
  const current: Writable = { ...deployment.status };
  /** What the API server is known to have: patches are relative to it. */
  const stored: Writable = { ...deployment.status };
  const unwritten = new Set<keyof DeploymentStatus>();
  let written: Promise<void> = Promise.resolve();
  let hasProgress = false;

  async function write(ready: Verdict | undefined, reconciling: string | undefined): Promise<number | undefined> {
    current.conditions = toConditions(
      current.conditions,
      deployment.generation,
      ready,
      reconciling,
      rfc3339(clock.now()),
    );
    const fields = [...unwritten, "conditions" as const];
    unwritten.clear();
    const sent = { ...current };
    const patch = fields.map((field) => [field, mergePatch(documentOf(stored[field]), documentOf(sent[field]))]);
    try {
      const generation = await patchStatus(deployment, Object.fromEntries(patch) as StatusPatch, signal);
      for (const field of fields) Object.assign(stored, { [field]: sent[field] });
      return generation;
    } catch (error) {
      for (const field of fields) unwritten.add(field);
      throw error;
    }
  }

  return {
    current,
    get hasProgress() {
      return hasProgress;
    },
    set(patch) {
      for (const [field, value] of Object.entries(patch)) {
        unwritten.add(field as keyof DeploymentStatus);
        Object.assign(current, { [field]: value ?? undefined });
      }
    },
    progress(message, ready) {
      hasProgress = true;
      written = written
        .then(async () => void (await write(ready, message)))
        .catch((error: unknown) => {
          if (!signal?.aborted) log.warn({ err: error }, "could not write the progress to the status");
        });
    },
    async save(message, ready) {
      hasProgress = true;
      await written;
      return write(ready, message);
    },
    settled: () => written,
    async finish(ready) {
      await written;
      await write(ready, undefined);
    },
  };
}

/** The last results are stored as whole documents; decisions use their summaries. */
function documentOf(value: unknown): unknown {
  return typeof value === "object" && value !== null && "document" in value ? value.document : value;
}
