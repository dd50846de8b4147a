/**
 * Renders a deployment and compares it with the cluster, with the same code as the server's reconciliation but without any
 * adapter that writes.
 */
import { SourceError } from "../errors.ts";
import type { Deployment, Held } from "../model.ts";
import { monotonicNow } from "../kit/monotonic.ts";
import type { Deployments } from "../ports.ts";
import { toFailure } from "../reconcile/failures.ts";
import { parts } from "../reconcile/parts.ts";
import { withProject } from "../reconcile/project.ts";
import { toStageError } from "../reconcile/stage-error.ts";
import { type LoopDeps, startWork } from "../reconcile/work.ts";
import { redactText } from "../redact/redact-text.ts";
import type { SwapComparison } from "./swap.ts";

export interface SwapCompareDeps extends Omit<LoopDeps, keyof typeof writesNothing | "settings" | "observe" | "parts"> {
  readonly signal: AbortSignal;
}

/** Errors contain no secrets. */
export function createCompare({
  signal,
  ...deps
}: SwapCompareDeps): (deployment: Deployment) => Promise<SwapComparison> {
  const loopDeps: LoopDeps = { ...deps, ...writesNothing, parts, settings: { dryRun: true } };

  async function compareAt(deployment: Deployment): Promise<Omit<SwapComparison, "moved">> {
    const request = { kind: "reconcile", deployment: deployment.key, cause: "interval" } as const;
    const loop = { deployment, request, freshness: undefined, retrying: false, held: unlosable, signal };
    const work = startWork(loop, loopDeps);
    try {
      return await withProject(work, async ({ commit, steps }) => {
        const { objectsHash } = await steps.compare();
        return { commit, objectsHash };
      });
    } catch (error) {
      const { cause, secrets } = toStageError(error);
      if (isGone(cause)) throw cause;
      throw new Error(await redactText(toFailure(cause).message, secrets), { cause });
    }
  }

  return async function compare(deployment) {
    const seen = atSeenCommit(deployment);
    if (seen === undefined) return { ...(await compareAt(deployment)), moved: false };
    try {
      return { ...(await compareAt(seen)), moved: false };
    } catch (error) {
      if (!isGone(error)) throw error;
      return { ...(await compareAt(deployment)), moved: true };
    }
  };
}

/** Pins the commit in the status, so that commits pushed in the meantime are not reported as a difference. */
function atSeenCommit(deployment: Deployment): Deployment | undefined {
  const { spec, status } = deployment;
  const { source } = spec;
  const commit = status.observedCommit;
  if (source.kind !== "git" || commit === undefined) return undefined;
  return { ...deployment, spec: { ...spec, source: { ...source, ref: { commit } } } };
}

function isGone(error: unknown): boolean {
  return error instanceof SourceError && error.problem === "ref-not-found";
}

function refuse(): never {
  throw new Error("the doctor is read-only");
}

const readOnly: Deployments = {
  get: refuse,
  resource: refuse,
  overridden: refuse,
  tracking: refuse,
  including: refuse,
  setAnnotation: refuse,
  all: refuse,
  whenSynced: refuse,
  patchStatus: refuse,
  moveTimes: refuse,
  setFinalizer: refuse,
  removeAnnotation: refuse,
  event: refuse,
};
const writesNothing = {
  deployments: readOnly,
  results: { storeCommand: refuse, storeValidate: refuse },
  objects: { delete: refuse, read: refuse },
};

/** Comparing needs no lease, but kluctl's watchdog expects one that is renewed. */
const unlosable: Held = {
  lost: new AbortController().signal,
  onRenewed(callback) {
    const renew = () => callback(monotonicNow());
    renew();
    const timer = setInterval(renew, 2_000);
    return () => clearInterval(timer);
  },
  release: () => Promise.resolve(),
};
