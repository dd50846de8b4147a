/**
 * Verifies skips: for some skipped checks, it runs the comparison with the cluster anyway, separately from the
 * deployment. It is read-only and writes no status. A skip was wrong if the project renders other objects than assumed,
 * or they differ from the cluster, while all evidence of the skip is unchanged.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { PrepareError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { type CheckoutSource, type CommandResult, type Deployment, keyText } from "../model.ts";
import type { Kluctl, Secrets, Sources } from "../ports.ts";
import { readCredentials } from "../access/credentials.ts";
import { loopTimeoutMs } from "../reconcile/decide.ts";
import { toFailure } from "../reconcile/failures.ts";
import type { ReadIdentity } from "../access/identity.ts";
import { differs } from "../reconcile/status/results.ts";
import { toDeployOptions, toRun } from "../reconcile/run.ts";

/** A check that was skipped. */
export interface Skip {
  readonly deployment: Deployment;
  readonly objectsHash: string;
  /** The commit that was assumed to render these objects; empty for an artifact. */
  readonly commit: string;
  /** The previous commit, if the source has moved. */
  readonly movedFrom: string | undefined;
  /** A description: since when nothing has changed, and what was checked. */
  readonly evidence: string;
  /** Collects all evidence again, from scratch, and returns what has changed since; `undefined`: nothing. */
  readonly whyOvertaken: () => Promise<string | undefined>;
}

/** Which part of the evidence turned out to be wrong. */
export type Believed = "move" | "inputs" | "objects";

export interface SkipAuditDeps {
  /** Audit one in this many skips; 0: none. */
  readonly oneIn: () => number;
  readonly sources: Pick<Sources, "checkout">;
  readonly secrets: Secrets;
  readonly kluctl: Pick<Kluctl, "diff">;
  readonly readIdentity: ReadIdentity;
  readonly dryRun: () => boolean;
  readonly newId: () => string;
  readonly log: Logger;
  readonly observe?: { audited(result: AuditResult): void; wrongSkip(believed: Believed): void } | undefined;
  /** How long the watches may take to see what kluctl already sees. */
  readonly settleMs?: number | undefined;
}

/**
 * `overtaken`: something changed after the skip, so the comparison proves nothing. `failed`: kluctl could not compare.
 */
export type AuditResult = "right" | "wrong" | "overtaken" | "failed";

export interface SkipAudit {
  /** Returns at once and never throws. */
  note(skip: Skip): void;
  stop(): Promise<void>;
}

interface Difference {
  readonly believed: Believed;
  readonly found: Readonly<Record<string, unknown>>;
}

export function createSkipAudit(deps: SkipAuditDeps): SkipAudit {
  const { kluctl, sources, secrets, newId, log, observe, settleMs = 5_000 } = deps;
  /** The last unaudited skip of each deployment. */
  const pending = new Map<string, Skip>();
  const stopping = new AbortController();
  const { signal } = stopping;
  let working: Promise<void> | undefined;

  async function compare({ deployment, commit }: Skip): Promise<CommandResult> {
    const credentials = await readCredentials(deployment, secrets);
    const identity = await deps.readIdentity(deployment);
    const { source } = deployment.spec;
    const wanted: CheckoutSource =
      source.kind === "git"
        ? { ...source, ref: { commit }, credentials: credentials.git }
        : { ...source, credentials: credentials.oci };
    const checkout = await sources.checkout(wanted, undefined, signal);
    try {
      const context = { reconcileId: newId(), checkout, credentials, identity };
      const run = toRun(deployment, { ...context, timeoutMs: loopTimeoutMs(deployment.spec) });
      return await kluctl.diff(run, toDeployOptions(deployment, deps.dryRun()), signal);
    } finally {
      await checkout.release();
    }
  }

  async function findDifference(skip: Skip): Promise<Difference | undefined> {
    const ofRendering = skip.movedFrom === undefined ? "inputs" : "move";
    try {
      const result = await compare(skip);
      const { objectsHash, objects, errors } = result;
      if (objectsHash !== skip.objectsHash) return { believed: ofRendering, found: { objectsHash } };
      if (errors.length > 0) throw new Error(errors[0]?.message);
      if (!differs(result)) return undefined;
      const others = objects.filter((object) => differs({ objects: [object] })).map(({ ref }) => ref);
      return { believed: "objects", found: { objects: others.slice(0, 5), count: others.length } };
    } catch (error) {
      const isRendering = error instanceof PrepareError && toFailure(error).retry === "person";
      if (!isRendering) throw error;
      return { believed: ofRendering, found: { error: error.message } };
    }
  }

  async function audit(skip: Skip): Promise<AuditResult> {
    const { deployment, commit, movedFrom, evidence, objectsHash } = skip;
    const difference = await findDifference(skip);
    if (difference === undefined) return "right";
    let overtaken = await skip.whyOvertaken();
    if (overtaken === undefined) {
      await sleep(settleMs, undefined, { signal });
      overtaken = await skip.whyOvertaken();
    }
    if (overtaken !== undefined) {
      log.debug({ ...deployment.key, why: overtaken }, "skip audit: superseded");
      return "overtaken";
    }
    const { believed, found } = difference;
    log.error({ ...deployment.key, commit, movedFrom, believed, evidence, objectsHash, found }, wrongSkip);
    observe?.wrongSkip(believed);
    return "wrong";
  }

  async function work(): Promise<void> {
    for (const [key, skip] of pending) {
      if (signal.aborted) return;
      pending.delete(key);
      const result = await audit(skip).catch((error: unknown): AuditResult => {
        if (!signal.aborted)
          log.info(
            { ...skip.deployment.key, error: toFailure(error).message },
            "skip audit failed: kluctl could not compare",
          );
        return "failed";
      });
      if (!signal.aborted) observe?.audited(result);
    }
  }

  return {
    note(skip) {
      const oneIn = deps.oneIn();
      if (oneIn === 0 || signal.aborted || Math.random() * oneIn >= 1) return;
      pending.set(keyText(skip.deployment.key), skip);
      working ??= work().finally(() => (working = undefined));
    },
    async stop() {
      stopping.abort(new Error("the server is stopping"));
      await working;
    },
  };
}

/** Exported for tests. */
export const wrongSkip =
  "skip audit: a check was skipped although it would have found a change; please report this (see docs/reliability.md, Auditing skips)";
