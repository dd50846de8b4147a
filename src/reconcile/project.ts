/**
 * Prepares what every kluctl command needs: the deployment's logins, and its project at the commit it currently
 * follows.
 */
import { credentialSecrets, readCredentials } from "../access/credentials.ts";
import type { Checkout, CheckoutSource, Credentials, Identity } from "../model.ts";
import { openOverrides } from "./overriding.ts";
import { inStage } from "./stage-error.ts";
import type { Steps } from "./steps/steps.ts";
import type { Work } from "./work.ts";

export interface Project {
  readonly commit: string;
  readonly checkout: Pick<Checkout, "root" | "commit">;
  readonly identity: Identity;
  /** Must not appear in any message. */
  readonly secrets: readonly string[];
  readonly steps: Steps;
}

/** The project's files exist only while `use` runs. Throws StageError if they cannot be prepared. */
export async function withProject<T>(work: Work, use: (project: Project) => Promise<T>): Promise<T> {
  const { deployment, deps, status, log } = work;
  const credentials = await inStage("prepare", [], () => readCredentials(deployment, deps.secrets));
  const logins = credentialSecrets(credentials);
  const identity = await inStage("prepare", logins, () => deps.readIdentity(deployment));
  const secrets = [...logins, ...identity.secrets];
  return inStage("prepare", secrets, async () => {
    const startedAt = deps.clock.now();
    const overriding = await openOverrides(work);
    let checkout: Checkout | undefined;
    try {
      checkout = (await overriding?.checkout()) ?? (await checkOut(work, credentials));
      const { commit } = checkout;
      log.info({ commit, ms: deps.clock.now() - startedAt }, "source checked out");
      if (observes(work) || commit === "") status.set({ observedCommit: commit || undefined });
      const { kluctl } = overriding ?? deps;
      const clusterId = await deps.clusterId();
      const steps = deps.parts.createSteps(work, { checkout, credentials, identity, secrets, kluctl, clusterId });
      return await use({ commit, checkout, identity, secrets, steps });
    } finally {
      await checkout?.release();
      await overriding?.release();
    }
  });
}

/** Whether what follows brings the deployment itself in line with the commit: other requests leave that to do. */
function observes({ asked }: Work): boolean {
  return asked === undefined || (asked.overridesPatch === undefined && /reconcile|deploy/.test(asked.kind));
}

function checkOut({ deployment, deps, freshness, signal, asked }: Work, credentials: Credentials): Promise<Checkout> {
  const { spec, status, generation } = deployment;
  const { source } = spec;
  // After a spec change, the user may want an older commit.
  const seen = status.observedGeneration === generation ? status.observedCommit : undefined;
  const wanted: CheckoutSource =
    source.kind === "git"
      ? { ...source, seen, credentials: credentials.git }
      : { ...source, credentials: credentials.oci };
  // A request is already in progress, so its result is not postponed.
  return deps.sources.checkout(wanted, freshness, signal, { leaves: asked === undefined });
}
