/**
 * Wraps reconciliations: leaves out what cannot find anything new, and learns from each reconciliation what the next one
 * may leave out. Without this, everything is done each time.
 */
import { around, type Interceptor } from "../kit/around.ts";
import { rfc3339 } from "../kit/time.ts";
import type { ValidateResult } from "../model.ts";
import type { Clock } from "../ports.ts";
import type { Parts } from "../reconcile/parts.ts";
import { isAwaitingHealth } from "../reconcile/status/conditions.ts";
import type { Steps } from "../reconcile/steps/steps.ts";
import type { Validated } from "../reconcile/steps/validate.ts";
import type { Work } from "../reconcile/work.ts";
import { hasKnownRules, isKnownReady } from "./known-ready.ts";
import type { InputsBefore } from "./evidence.ts";
import type { Skipping } from "./skipping.ts";

export interface AroundReconcileDeps {
  readonly skipping: Pick<Skipping, "skipJob" | "during" | "begin" | "learn" | "forget" | "whyCompare">;
  /** kluctl's version, which may be followed by more words. */
  readonly kluctl: () => Promise<string>;
  readonly clock: Clock;
}

export function skipsWithin({ skipping, kluctl, clock }: AroundReconcileDeps): Interceptor<Parts> {
  const evidence = new WeakMap<Work, InputsBefore>();

  return {
    async findFulfilled(next, check, find) {
      const fulfilled = await next(check, find);
      const { cause, deployment, freshness } = check;
      if (fulfilled.why !== undefined || isAwaitingHealth(deployment.status)) return fulfilled;
      if (cause === "interval") {
        const answer = await skipping.skipJob(deployment, { since: freshness?.since });
        return answer === "skipped" ? { why: "nothing can have changed" } : fulfilled;
      }
      // Pushes skip this check, because someone waits for them and a reported push usually affects the project's inputs.
      if (cause !== "sweep" || fulfilled.head === undefined) return fulfilled;
      const answer = await skipping.skipJob(deployment, { to: fulfilled.head });
      return answer === "skipped" ? { why: `none of its inputs changed up to ${fulfilled.head.commit}` } : fulfilled;
    },

    runLoop: (next, loop, deps) => skipping.during(loop.deployment.key, () => next(loop, deps)),
    runCommand: (next, pending, loop, deps) => skipping.during(loop.deployment.key, () => next(pending, loop, deps)),

    async bringUpToDate(next, work) {
      // Collected before Secrets are read. Not if someone is waiting for the result: the next interval check is soon
      // enough.
      const { cause } = work.request;
      const isAwaited = cause === "push" || cause === "include" || work.asked !== undefined;
      if (!isAwaited) evidence.set(work, await skipping.begin(work.deployment, work.signal));
      return next(work);
    },

    async settleProject(next, work, project) {
      const report = await next(work, project);
      const { deployment, signal } = work;
      // A reconciliation with one-off overrides is no evidence for the next one.
      if (work.asked?.overridesPatch !== undefined) skipping.forget(deployment.key);
      else if (report.found) await skipping.learn(evidence.get(work), { deployment, ...report.found, signal });
      return report;
    },

    createSteps: (next, work, context) => around(next(work, context), skipsAmongSteps(work)),

    /**
     * Whether a deploy alone is enough: see comparing.ts. Never with one-off overrides: nothing is known about their
     * effects.
     */
    async comparesFirst(_next, { deployment, asked, log, signal }, commit) {
      if (asked?.overridesPatch !== undefined) return true;
      if (commit === "" || commit === deployment.status.observedCommit) return true;
      const why = await skipping.whyCompare(deployment, commit, signal);
      if (why !== undefined) log.debug({ why }, "comparing before the deploy");
      return why !== undefined;
    },
  };

  function skipsAmongSteps(work: Work): Interceptor<Steps> {
    const { deployment } = work;
    return {
      deploy(next, deploying) {
        skipping.forget(deployment.key);
        return next(deploying);
      },
      prune(next) {
        skipping.forget(deployment.key);
        return next();
      },
      async validate(next, validating) {
        const { after } = validating;
        const known = after && (await whatIsKnown(after));
        return next({ ...validating, known });
      },
    };
  }

  /** The validation that kluctl would make of objects that it has just read or applied, if that is certain. */
  async function whatIsKnown({ rendered, deployed }: Validated): Promise<ValidateResult | undefined> {
    const now = clock.now();
    if (!isKnownReady(rendered, { deployed, now }) || !hasKnownRules(await kluctl())) return undefined;
    const at = rfc3339(now);
    return { document: { startTime: at, endTime: at, ready: true }, ready: true, errors: [], warnings: [] };
  }
}
