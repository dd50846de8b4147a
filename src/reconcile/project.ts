/**
 * Prepares what every kluctl command needs: the deployment's logins, and its project at the commit it currently
 * follows.
 */
import type { Checkout, CheckoutSource, Identity } from "../ports.ts";
import { credentialSecrets, readCredentials } from "../access/credentials.ts";
import { openOverrides } from "./overriding.ts";
import { createSteps, type Steps } from "./steps.ts";
import type { Work } from "./work.ts";

export interface Project {
  readonly commit: string;
  readonly checkout: Pick<Checkout, "root" | "commit">;
  readonly identity: Identity;
  readonly steps: Steps;
}

/** The project's files exist only while `use` runs. Throws if they cannot be prepared. */
export async function withProject<T>(work: Work, use: (project: Project) => Promise<T>): Promise<T> {
  const { deployment, deps, status, log, asOf, signal } = work;
  const { source } = deployment.spec;
  const credentials = await readCredentials(deployment, deps.secrets);
  work.secrets = credentialSecrets(credentials);
  const identity = await deps.readIdentity(deployment);
  work.secrets = [...work.secrets, ...identity.secrets];
  const startedAt = deps.clock.now();
  const overriding = await openOverrides(work);
  let checkout: Checkout | undefined;
  try {
    checkout = (await overriding?.checkout()) ?? (await checkOut());
    const { commit } = checkout;
    log.info({ commit, ms: deps.clock.now() - startedAt }, "source checked out");
    status.set({ observedCommit: commit || undefined });
    const { kluctl } = overriding ?? deps;
    const steps = createSteps(work, { checkout, credentials, identity, kluctl, clusterId: await deps.clusterId() });
    return await use({ commit, checkout, identity, steps });
  } finally {
    await checkout?.release();
    await overriding?.release();
  }

  function checkOut(): Promise<Checkout> {
    const { status: before, generation } = deployment;
    // After a spec change, the user may want an older commit.
    const seen = before.observedGeneration === generation ? before.observedCommit : undefined;
    const wanted: CheckoutSource =
      source.kind === "git"
        ? { ...source, seen, credentials: credentials.git }
        : { ...source, credentials: credentials.oci };
    // A request is already in progress, so its result is not postponed.
    return deps.sources.checkout(wanted, asOf, signal, { leaves: work.asked === undefined });
  }
}
