/**
 * Remembers the objects of successful validations. A validation only depends on these objects, so it finds the same
 * while none of them changes, not even in its status: then a reconciliation that has to compare need not run kluctl a
 * second time to validate.
 */
import { createHash } from "node:crypto";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { type CommandResult, type Deployment, keyText, type ResultObject, type ValidateSummary } from "../model.ts";
import type { Clock } from "../ports.ts";
import { targetOf } from "../reconcile/keys.ts";
import { mostRemembered } from "./queries.ts";
import { seenObjects } from "./objects.ts";
import { fullIntervalOf } from "./settings.ts";

export interface Validations {
  /**
   * `seen`: the comparison before the validation, so that changes made in the meantime count as changes the next time.
   */
  keep(deployment: Deployment, seen: CommandResult, found: ValidateSummary | undefined): void;
  /** Whether the last validation in the status would find the same for the objects compared just now. */
  stands(deployment: Deployment, seen: CommandResult): boolean;
}

export interface ValidationsDeps {
  /** After this time a validation runs in any case, unless the deployment sets its own interval. */
  readonly fullIntervalMs: () => number;
  readonly clock: Clock;
}

interface Kept {
  readonly resultId: string;
  readonly at: number;
  readonly seen: string;
}

export function createValidations({ fullIntervalMs, clock }: ValidationsDeps): Validations {
  const remembered = createBoundedMap<Kept>({ entries: mostRemembered });

  return {
    keep(deployment, seen, found) {
      const key = keyText(deployment.key);
      remembered.delete(key);
      const objects = found?.errors === 0 && found.warnings === 0 ? fingerprintOf(deployment, seen) : undefined;
      if (found === undefined || objects === undefined) return;
      remembered.set(key, { resultId: found.id, at: clock.now(), seen: objects });
    },
    stands(deployment, seen) {
      const { key, spec, status } = deployment;
      const kept = remembered.get(keyText(key));
      if (kept === undefined || kept.resultId !== status.lastValidateResult?.id) return false;
      // An explicit interval is always followed.
      if (spec.validateIntervalMs !== undefined) return false;
      const fullMs = fullIntervalOf(deployment, fullIntervalMs()) ?? 0;
      return clock.now() - kept.at < fullMs && kept.seen === fingerprintOf(deployment, seen);
    },
  };
}

/** Returns `undefined` if the result does not contain all of the deployment's objects in the cluster. */
function fingerprintOf({ uid, generation }: Deployment, { document, objects, objectsHash }: CommandResult) {
  const { discriminator } = targetOf(document);
  if (discriminator === undefined) return undefined;
  const { versions, reason } = seenObjects(objects.filter(isRendered), discriminator, { applied: false });
  if (reason !== undefined) return undefined;
  const lines = [...versions].map(([id, version]) => `${id} ${version.uid} ${version.resourceVersion}`);
  const parts = [uid, generation, objectsHash, lines.toSorted()];
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64");
}

/** Orphans are not validated. */
function isRendered({ orphan }: ResultObject): boolean {
  return !orphan;
}
