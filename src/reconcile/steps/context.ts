/** What the steps of one reconciliation share: the parameters of kluctl's runs, and where results are recorded. */
import type { Checkout, CommandResult, Credentials, DeployOptions, Identity, Run, TargetKey } from "../../model.ts";
import type { Kluctl } from "../../ports.ts";
import { type MaskedResult, maskSafely } from "../../redact/mask-result.ts";
import { projectKey, targetOf } from "../keys.ts";
import { toDeployOptions, toRun } from "../run.ts";
import type { ResultContext } from "../status/results.ts";
import type { Work } from "../work.ts";

export interface StepsContext {
  readonly checkout: Checkout;
  readonly credentials: Credentials;
  readonly identity: Identity;
  /** Must not appear in any message. */
  readonly secrets: readonly string[];
  readonly kluctl: Kluctl;
  readonly clusterId: string;
}

export interface StepContext extends StepsContext {
  readonly work: Work;
  readonly options: DeployOptions;
  /** The user reads the result of a requested command, even if nothing changed. */
  readonly isWanted: boolean;
  /** A dry run for once: its result says nothing about what is deployed. */
  readonly isTrial: boolean;
  run(): Run;
  masked(result: CommandResult): Promise<MaskedResult>;
  targetKeyOf(result: Pick<CommandResult, "document">): TargetKey;
  resultContext(objectsHash: string | undefined, targetKey: TargetKey): ResultContext;
  /**
   * Stores a result in the background. Stored results are for users' convenience: if one cannot be stored, it is logged,
   * and what was done counts.
   */
  store(id: string, write: () => Promise<boolean>): void;
  /** Resolves once the results of all steps are stored or failed to be stored; returns the ids of the stored ones. */
  stored(): Promise<readonly string[]>;
}

export function createStepContext(work: Work, context: StepsContext): StepContext {
  const { deployment, deps, signal, log, reconcileId, asked } = work;
  const { spec } = deployment;
  const { checkout, credentials, identity, secrets, clusterId } = context;
  const options = toDeployOptions(deployment, deps.settings.dryRun);
  const storing: Promise<string | undefined>[] = [];

  return {
    ...context,
    work,
    options,
    isWanted: asked !== undefined && asked.kind !== "reconcile",
    isTrial: options.dryRun && asked?.overridesPatch !== undefined,

    run: () =>
      toRun(deployment, {
        reconcileId,
        checkout,
        credentials,
        identity,
        held: work.held,
        timeoutMs: work.timeLeftMs(),
      }),

    masked: (result) => maskSafely(result, { known: secrets, signal, log }),

    targetKeyOf({ document }) {
      const { name, discriminator, clusterId: target } = targetOf(document);
      return {
        ...(name && { targetName: name }),
        // Only kluctl knows the id of another cluster; if it may not read it, it is unknown.
        clusterId: target ?? (identity.cluster ? "" : clusterId),
        ...(discriminator && { discriminator }),
      };
    },

    resultContext: (objectsHash, targetKey) => ({
      id: deps.newId(),
      reconcileId,
      deployment: deployment.key,
      clusterId,
      projectKey: projectKey(spec.source),
      targetKey,
      objectsHash,
      source: spec.source,
      madeFrom: checkout.madeFrom,
      workingCopy: checkout.commit === "",
      overridesPatch: asked?.overridesPatch,
    }),

    store(id, write) {
      const stored = write().then(
        (isStored) => (isStored ? id : undefined),
        (error: unknown) => {
          log.warn({ err: error }, "could not store the result");
          return undefined;
        },
      );
      storing.push(stored);
    },

    stored: async () => (await Promise.all(storing)).filter((id) => id !== undefined),
  };
}
