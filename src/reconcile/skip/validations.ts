/**
 * Remembers of which objects a validation found nothing wrong. All that it looks at is these objects, so that it finds
 * the same as long as none of them, not even its status, is another: then a loop that has to compare need not run kluctl
 * a second time to validate.
 */
import { createHash } from "node:crypto";
import { type CommandResult, type Deployment, keyText, type ResultObject, type ValidateSummary } from "../../model.ts";
import type { Clock } from "../../ports.ts";
import { targetOf } from "../keys.ts";
import { evict } from "./evidence.ts";
import { seenObjects } from "./objects.ts";
import { fullIntervalOf } from "./settings.ts";

export interface Validations {
  /** `seen`: what was compared before the validation, so that what changed meanwhile is another next time. */
  keep(deployment: Deployment, seen: CommandResult, found: ValidateSummary | undefined): void;
  /** Whether the last validation, as the status has it, would find the same of what was compared just now. */
  stands(deployment: Deployment, seen: CommandResult): boolean;
  /** Another kluctl may find something else of the same objects. */
  forgetAll(): void;
}

export interface ValidationsDeps {
  /** At the latest after so long it is done again, unless the deployment says otherwise. */
  readonly fullIntervalMs: () => number;
  readonly clock: Clock;
}

interface Kept {
  readonly resultId: string;
  readonly at: number;
  readonly seen: string;
}

export function createValidations({ fullIntervalMs, clock }: ValidationsDeps): Validations {
  const remembered = new Map<string, Kept>();

  return {
    keep(deployment, seen, found) {
      const key = keyText(deployment.key);
      remembered.delete(key);
      const objects = found?.errors === 0 && found.warnings === 0 ? fingerprintOf(deployment, seen) : undefined;
      if (found === undefined || objects === undefined) return;
      remembered.set(key, { resultId: found.id, at: clock.now(), seen: objects });
      evict(remembered);
    },
    stands(deployment, seen) {
      const { key, spec, status } = deployment;
      const kept = remembered.get(keyText(key));
      if (kept === undefined || kept.resultId !== status.lastValidateResult?.id) return false;
      // Whoever says how often wants it that often.
      if (spec.validateIntervalMs !== undefined) return false;
      const fullMs = fullIntervalOf(deployment, fullIntervalMs()) ?? 0;
      return clock.now() - kept.at < fullMs && kept.seen === fingerprintOf(deployment, seen);
    },
    forgetAll: () => remembered.clear(),
  };
}

/** `undefined` if not all that it has in the cluster is told. */
function fingerprintOf({ uid, generation }: Deployment, { document, objects, objectsHash }: CommandResult) {
  const { discriminator } = targetOf(document);
  if (discriminator === undefined) return undefined;
  const { versions, doubt } = seenObjects(objects.filter(isRendered), discriminator, { applied: false });
  if (doubt !== undefined) return undefined;
  const lines = [...versions].map(([id, version]) => `${id} ${version.uid} ${version.resourceVersion}`);
  const parts = [uid, generation, objectsHash, lines.toSorted()];
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64");
}

/** An orphan is nothing that is validated. */
function isRendered({ orphan }: ResultObject): boolean {
  return !orphan;
}
