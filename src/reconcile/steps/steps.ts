/** The steps of a reconciliation, each with its log lines, events and stored results. They throw StageError. */
import type { CommandResult, Health, ValidateResult } from "../../model.ts";
import type { MaskedResult } from "../../redact/mask-result.ts";
import { inStage } from "../stage-error.ts";
import type { Work } from "../work.ts";
import { checkHealth } from "./check-health.ts";
import { compare, diff, driftAfter } from "./compare.ts";
import { createStepContext, type StepsContext } from "./context.ts";
import { deploy, type Deploying } from "./deploy.ts";
import {
  announceApproval,
  announceEarlier,
  announceObstacle,
  type Earlier,
  findEarlier,
  findObstacle,
  type Obstacle,
} from "./obstacles.ts";
import { prune } from "./prune.ts";
import { recordState } from "./record.ts";
import { validate, type Validating } from "./validate.ts";

export type { StepsContext } from "./context.ts";

export interface Steps {
  /** Whether nothing is changed, whatever is asked. */
  readonly dryRun: boolean;
  compare(): Promise<MaskedResult>;
  diff(): Promise<MaskedResult>;
  deploy(deploying: Deploying): Promise<MaskedResult>;
  prune(): Promise<MaskedResult>;
  validate(validating: Validating): Promise<ValidateResult>;
  /** `undefined`: it has no health checks. */
  checkHealth(): Promise<Health | undefined>;
  driftAfter(deployed: MaskedResult): Promise<MaskedResult>;
  findEarlier(compared: CommandResult): Promise<Earlier | undefined>;
  announceEarlier(earlier: Earlier): void;
  announceApproval(compared: CommandResult): void;
  findObstacle(result: CommandResult): Obstacle | undefined;
  announceObstacle(obstacle: Obstacle): void;
  recordState(rendered: CommandResult, drift: MaskedResult, of: { deployed: boolean }): void;
  /** Resolves once all results are stored or failed to be stored; returns the ids of the stored ones. */
  stored(): Promise<readonly string[]>;
}

export function createSteps(work: Work, of: StepsContext): Steps {
  const context = createStepContext(work, of);
  return {
    dryRun: context.options.dryRun,
    compare: () => compare(context),
    diff: () => diff(context),
    deploy: (deploying) => deploy(context, deploying),
    prune: () => prune(context),
    validate: (validating) => validate(context, validating),
    checkHealth: () =>
      inStage("validate", of.secrets, () =>
        checkHealth({ ...work, status: work.status.current, identity: of.identity }),
      ),
    driftAfter: (deployed) => driftAfter(context, deployed),
    findEarlier: (compared) => findEarlier(context, compared),
    announceEarlier: (earlier) => announceEarlier(context, earlier),
    announceApproval: (compared) => announceApproval(context, compared),
    findObstacle: (result) => findObstacle(context, result),
    announceObstacle: (obstacle) => announceObstacle(context, obstacle),
    recordState: (rendered, drift, { deployed }) => recordState(context, rendered, drift, { deployed }),
    stored: () => context.stored(),
  };
}
