/** The kluctl commands of a reconciliation, each with its events, logs and stored results. */
import { PrepareError } from "../errors.ts";
import {
  annotation,
  type CommandResult,
  type CommandSummary,
  type Credentials,
  type Deployment,
  keyText,
  type ResultError,
  type TargetKey,
  type ValidateResult,
} from "../model.ts";
import type { Checkout, Identity, Kluctl, Run } from "../ports.ts";
import {
  baseMessage,
  eventReason,
  firstErrors,
  inProgress,
  readyCondition,
  reason,
  resultMessage,
} from "./status/conditions.ts";
import { audited, type Doing } from "./auditing.ts";
import { isInterrupted, notApproved, renderedHash } from "./decide.ts";
import { findFirst, findSharing, isNewcomer, refusal, sharingNote } from "../guards/discriminators.ts";
import { projectKey, targetOf } from "./keys.ts";
import { maskSafely, type MaskedResult } from "../redact/mask-result.ts";
import { findDoomed, findWaiting, noDiscriminator, withPruned } from "../guards/pruning.ts";
import {
  afterDeploy,
  differs,
  toCommandSummary,
  toDrift,
  toStoredDocument,
  toValidateAnnotation,
  toValidateSummary,
  withDryRun,
  withErrors,
  type ResultContext,
} from "./status/results.ts";
import { toDeployOptions, toRun } from "./run.ts";
import { rfc3339 } from "../kit/time.ts";
import type { Work } from "./work.ts";

export interface StepsContext {
  readonly checkout: Checkout;
  readonly credentials: Credentials;
  readonly identity: Identity;
  readonly kluctl: Kluctl;
  readonly clusterId: string;
}

export type Steps = ReturnType<typeof createSteps>;

export function createSteps(work: Work, { checkout, credentials, identity, kluctl, clusterId }: StepsContext) {
  const { deployment, deps, signal, status, log, reconcileId, request, asked } = work;
  const { spec } = deployment;
  const { clock, results, settings, deployments } = deps;
  const options = toDeployOptions(deployment, settings.dryRun);
  /** The user reads the result of a requested command, even if nothing changed. */
  const isWanted = asked !== undefined && asked.kind !== "reconcile";
  /** The user requested this prune, so it needs no confirmation. */
  const isPruneAsked = isWanted || (asked?.overridesPatch?.["spec"] as { prune?: unknown } | undefined)?.prune === true;
  const storing: Promise<string | undefined>[] = [];

  const run = (): Run =>
    toRun(deployment, {
      reconcileId,
      checkout,
      credentials,
      identity,
      held: work.held,
      timeoutMs: work.timeLeftMs(),
    });

  const contextOf = (objectsHash: string | undefined, targetKey: TargetKey): ResultContext => ({
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
  });

  function targetKeyOf({ document }: Pick<CommandResult, "document">): TargetKey {
    const { name, discriminator, clusterId: target } = targetOf(document);
    return {
      ...(name && { targetName: name }),
      // Only kluctl knows the id of another cluster; if it may not read it, it is unknown.
      clusterId: target ?? (identity.cluster ? "" : clusterId),
      ...(discriminator && { discriminator }),
    };
  }

  function masked(result: CommandResult): Promise<MaskedResult> {
    return maskSafely(result, { known: work.secrets, signal, log });
  }

  /** Stored results are for users' convenience: a result that cannot be stored is logged, and the deploy counts. */
  function store(id: string, write: () => Promise<boolean>): void {
    const stored = write().then(
      (isStored) => (isStored ? id : undefined),
      (error: unknown) => {
        log.warn({ err: error }, "could not store the result");
        return undefined;
      },
    );
    storing.push(stored);
  }

  /** A deploy renders again: if an input outside git has changed, the result may not be what was approved. */
  function asApproved(deployed: CommandResult): CommandResult {
    const approved = spec.manualObjectsHash;
    if (!spec.manual || isWanted || approved === undefined || deployed.objectsHash === approved) return deployed;
    return withErrors(deployed, [notApproved(approved, deployed.objectsHash)]);
  }

  /**
   * Prunes after a successful deploy. Only the orphans found by that deploy are pruned, so no other object can be
   * affected.
   */
  async function pruneAfter(deployed: CommandResult): Promise<CommandResult> {
    if (!spec.prune || deployed.errors.length > 0) return deployed;
    if (targetOf(deployed.document).discriminator === undefined)
      return withPruned(deployed, [], [noDiscriminator], clock.now());
    const doomed = findDoomed(deployed);
    if (doomed.length === 0 || (isPruneAsked ? tellSharing(deployed) : keepsFromPruning(deployed))) return deployed;
    const { dryRun } = options;
    const startedAt = clock.now();
    const errors = await deps.objects.delete(doomed, run(), { dryRun }, signal);
    deps.observe?.pruned?.(deployment.key, (clock.now() - startedAt) / 1_000);
    log.info({ dryRun, pruned: doomed.length - errors.length, errors: errors.length }, "pruned");
    const confirmed = deployment.annotations[annotation.confirmPrune];
    if (confirmed !== undefined && !dryRun) {
      await deployments.removeAnnotation(deployment, annotation.confirmPrune, confirmed); // used up
    }
    return withPruned(deployed, doomed, errors, clock.now());
  }

  /**
   * Reports what prevents orphans from being pruned: once as an event, and in the message of `Ready` while it lasts.
   */
  function keepsFromPruning(result: CommandResult): boolean {
    return tellSharing(result) || tellWaiting(result);
  }

  function tellWaiting(result: CommandResult): boolean {
    const { pruneGuard } = settings;
    if (pruneGuard === undefined || !spec.prune || spec.deployMode !== "full-deploy" || options.dryRun) return false;
    const waiting = findWaiting(result, pruneGuard, deployment.annotations[annotation.confirmPrune]);
    if (waiting === undefined) return false;
    if (!note(waiting.message)) return true;
    log.warn({ prune: waiting.hash }, "prune blocked: it needs confirmation");
    deployments.event(deployment, "Warning", eventReason.pruneWaits, waiting.message);
    return true;
  }

  function tellSharing(result: CommandResult): boolean {
    const { discriminator = "" } = targetKeyOf(result);
    const others = sharing(result);
    if (others.length === 0) return false;
    const message = sharingNote(discriminator, others);
    if (!note(message)) return true;
    log.warn(
      { discriminator, with: others.map(({ key }) => keyText(key)) },
      "discriminator shared with another deployment",
    );
    deployments.event(deployment, "Warning", eventReason.sharedDiscriminator, message);
    for (const other of others) {
      deployments.event(other, "Warning", eventReason.sharedDiscriminator, sharingNote(discriminator, [deployment]));
    }
    return true;
  }

  function sharing(result: CommandResult): Deployment[] {
    return options.dryRun ? [] : findSharing(deployment, targetKeyOf(result), deployments.all());
  }

  /** Returns whether the message is new: it may already have been reported, even by this reconciliation. */
  function note(message: string): boolean {
    if (work.notes.includes(message)) return false;
    work.notes.push(message);
    return !readyCondition(deployment.status)?.message.includes(message);
  }

  /**
   * Runs a mutating command. Before that, the status is set to say that the applied state is unknown, so that the next
   * reconciliation deploys whatever it renders if this one is interrupted. Callers that know the outcome set the hash
   * again.
   */
  async function mutate(
    message: string,
    doing: Omit<Doing, "commit" | "dryRun">,
    act: () => Promise<CommandResult>,
  ): Promise<CommandResult> {
    const { dryRun } = options;
    const known = status.current.lastObjectsHash;
    if (dryRun) status.progress(message, inProgress);
    else {
      status.set({ lastObjectsHash: undefined });
      await status.save(message, inProgress);
    }
    try {
      return await audited(work, { ...doing, commit: checkout.commit, dryRun }, targetKeyOf, act);
    } catch (error) {
      if (error instanceof PrepareError) status.set({ lastObjectsHash: known }); // nothing was applied
      throw error;
    }
  }

  /** Stores the result of a command and emits its event. Returns the summary for the status. */
  function report(whole: CommandResult, result: MaskedResult, name: string, failed: string): CommandSummary {
    const context = contextOf(result.objectsHash, targetKeyOf(result));
    const summary = toCommandSummary(result, context);
    if (isWanted || worthStoring(result)) {
      const stored = { ...result, document: toStoredDocument(whole, context) };
      store(context.id, () => results.storeCommand(stored, summary.document, work.secrets));
    }
    const words = resultMessage(summary, name);
    if (result.errors.length > 0) {
      deployments.event(deployment, "Warning", failed, `${words} ${firstErrors(errorsOf(summary.document))}`);
    } else deployments.event(deployment, "Normal", reason.succeeded, words);
    return summary;
  }

  return {
    dryRun: options.dryRun,
    keepsFromPruning,

    /** Why this must not be deployed, if so: another deployment with the same discriminator was there first. */
    async refuses(compared: CommandResult): Promise<string | undefined> {
      const key = targetKeyOf(compared);
      if (options.dryRun || !isNewcomer(deployment, key)) return undefined;
      await deployments.whenSynced(signal);
      const others = findFirst(deployment, key, deployments.all());
      if (others.length === 0) return undefined;
      const message = refusal(key.discriminator ?? "", others);
      if (readyCondition(deployment.status)?.message === message) return message;
      log.warn({ discriminator: key.discriminator, with: others.map((other) => keyText(other.key)) }, "not deployed");
      deployments.event(deployment, "Warning", eventReason.sharedDiscriminator, message);
      for (const other of others) {
        const words = `${keyText(deployment.key)} has the same discriminator ${JSON.stringify(key.discriminator)} and is not deployed.`;
        deployments.event(other, "Warning", eventReason.sharedDiscriminator, words);
      }
      return message;
    },

    async compare(): Promise<MaskedResult> {
      const startedAt = clock.now();
      const result = await masked(await kluctl.diff(run(), options, signal));
      log.info({ ...counts(result), ms: clock.now() - startedAt }, "compared");
      return result;
    },

    /** Keeps the Ready condition as it is: a diff is read-only. */
    async diff(): Promise<MaskedResult> {
      work.phase = "diff";
      status.progress("Performing diff");
      const startedAt = clock.now();
      const whole = withDryRun(await kluctl.diff(run(), options, signal), options.dryRun);
      const result = await masked(whole);
      log.info({ ...counts(result), ms: clock.now() - startedAt }, "compared");
      status.set({ lastDiffResult: report(whole, result, "diff", reason.diffFailed) });
      return result;
    },

    /** A deploy without an effect equals a comparison: it is only logged. */
    async deploy(
      why: string,
      compared: CommandResult | undefined,
      hasEffect: (result: CommandResult) => boolean = () => true,
    ): Promise<MaskedResult> {
      // Before anything is applied: whether its orphans belong to another deployment is only known once the watch has
      // synced.
      if (spec.prune) await deployments.whenSynced(signal);
      work.phase = "deploy";
      const { dryRun } = options;
      const pokes = spec.deployMode === "poke-images";
      const message = `Performing ${isWanted ? "" : "kluctl "}${spec.deployMode}`;
      const startedAt = clock.now();
      const whole = await mutate(message, { action: pokes ? "poke-images" : "deploy", why }, async () =>
        pokes
          ? asApproved(await kluctl.pokeImages(run(), { dryRun }, signal))
          : pruneAfter(asApproved(await kluctl.deploy(run(), options, signal))),
      );
      const result = await masked(whole);
      const appliedAt = clock.now();
      const failed = result.errors.length > 0;
      const ms = appliedAt - startedAt;
      if (!hasEffect(result)) {
        log.info({ ...counts(result), ms }, "compared");
        return result;
      }
      log.info({ why, commit: checkout.commit, dryRun, ...counts(result), ms }, "deployed");
      if (!spec.manual && compared && compared.objectsHash !== result.objectsHash) {
        log.warn(
          { compared: compared.objectsHash, deployed: result.objectsHash },
          "the project rendered differently when it was deployed",
        );
      }
      if (request.receivedAt !== undefined && !failed) {
        deps.observe?.pushToApplied((appliedAt - request.receivedAt) / 1_000);
      }

      const name = isWanted ? "deploy" : spec.deployMode;
      status.set({ lastDeployResult: report(whole, result, name, reason.deployFailed) });
      return result;
    },

    async prune(): Promise<MaskedResult> {
      await deployments.whenSynced(signal);
      work.phase = "prune";
      status.progress("Performing prune", inProgress);
      const startedAt = clock.now();
      const { dryRun } = options;
      const found = withDryRun(await kluctl.prune(run(), signal), dryRun);
      const doomed = found.errors.length > 0 ? [] : findDoomed(found);
      const others = sharing(found);
      const whole = await mutate("Performing prune", { action: "prune", why: "asked for" }, async () => {
        const errors =
          others.length > 0
            ? [{ ref: { kind: "", name: "" }, message: sharingNote(targetKeyOf(found).discriminator ?? "", others) }]
            : await deps.objects.delete(doomed, run(), { dryRun }, signal);
        return withPruned(found, others.length > 0 ? [] : doomed, errors, clock.now());
      });
      const result = await masked(whole);
      log.info({ dryRun, ...counts(result), ms: clock.now() - startedAt }, "pruned");
      status.set({ lastDeployResult: report(whole, result, "prune", reason.pruneFailed) });
      return result;
    },

    /** The drift after a full deploy follows from its own result; after poke-images a comparison is needed. */
    async driftAfter(deployed: MaskedResult): Promise<MaskedResult> {
      if (spec.deployMode === "full-deploy") return afterDeploy(deployed, options.dryRun);
      return await masked(await kluctl.diff(run(), options, signal));
    },

    /**
     * Records what was rendered, for which target, and how it differs from the cluster. After an interrupted deploy,
     * the hash stays unknown until the next real deploy.
     */
    record(rendered: CommandResult, drift: MaskedResult, { deployed }: { deployed: boolean }): void {
      const targetKey = targetKeyOf(rendered);
      const { summary, message } = toDrift(drift, contextOf(rendered.objectsHash, targetKey));
      status.set({
        targetKey,
        lastObjectsHash:
          (deployed && !options.dryRun) || !isInterrupted(deployment.status) ? rendered.objectsHash : undefined,
        lastManualObjectsHash: spec.manualObjectsHash,
        lastDriftDetectionResult: summary,
        lastDriftDetectionResultMessage: message,
      });
    },

    async validate(objectsHash: string | undefined): Promise<ValidateResult> {
      work.phase = "validate";
      status.progress(`Performing ${isWanted ? "" : "kluctl "}validate`, inProgress);
      const startedAt = clock.now();
      const result = await kluctl.validate(run(), signal);
      const { ready, errors, warnings } = result;
      log.info({ ready, errors: errors.length, warnings: warnings.length, ms: clock.now() - startedAt }, "validated");
      const targetKey = isWanted ? targetKeyOf(result) : (status.current.targetKey ?? { clusterId });
      const summary = toValidateSummary(result, contextOf(objectsHash, targetKey));
      status.set({ lastValidateResult: summary });
      store(summary.id, () => results.storeValidate(summary.document, toValidateAnnotation(summary.document)));
      if (errors.length > 0) {
        const words = `${baseMessage(summary, "validate")} ${firstErrors(errorsOf(summary.document))}`;
        deployments.event(deployment, "Warning", reason.validateFailed, words);
      }
      return result;
    },

    /** Keeps the last validation and updates its time. */
    keepValidation(): void {
      const last = status.current.lastValidateResult;
      if (last === undefined) return;
      const at = rfc3339(clock.now());
      log.info("validation skipped: no object changed since the last one");
      status.set({
        lastValidateResult: { ...last, document: { ...last.document, startTime: at, endTime: at }, endTime: at },
      });
    },

    /** Emits one event per change that needs approval. */
    tellApproval({ objectsHash }: CommandResult): void {
      log.info({ objectsHash }, "waiting for approval");
      if (renderedHash(deployment.status) === objectsHash) return;
      const message = `The changes need approval: set spec.manualObjectsHash to ${objectsHash}.`;
      deployments.event(deployment, "Normal", eventReason.waitingForApproval, message);
    },

    /** Resolves once the results of all steps are stored or failed to be stored; returns the ids of the stored ones. */
    async stored(): Promise<readonly string[]> {
      return (await Promise.all(storing)).filter((id) => id !== undefined);
    },
  };
}

function worthStoring(result: CommandResult): boolean {
  return differs(result) || result.errors.length > 0 || result.warnings.length > 0;
}

function counts({ objects, errors, warnings }: CommandResult) {
  return {
    objects: objects.length,
    new: objects.filter((o) => o.new).length,
    changed: objects.filter((o) => o.changes.length > 0).length,
    orphan: objects.filter((o) => o.orphan).length,
    deleted: objects.filter((o) => o.deleted).length,
    errors: errors.length,
    warnings: warnings.length,
  };
}

function errorsOf(document: Readonly<Record<string, unknown>>): readonly ResultError[] {
  return (document["errors"] ?? []) as readonly ResultError[];
}
