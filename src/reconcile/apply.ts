/**
 * Step 9 of a push: brings the cluster in line with the project where needed. It compares, decides by the table in
 * decide.ts, and deploys. Next: src/reconcile/steps/deploy.ts.
 */
import { annotation, type CommandResult } from "../model.ts";
import { decide, deployRegardless, type Decision, type DecisionInput } from "./decide.ts";
import { mayCollide } from "../guards/discriminators.ts";
import type { MaskedResult } from "../redact/mask-result.ts";
import type { Project } from "./project.ts";
import { isConfirmed } from "../guards/pruning.ts";
import { differs } from "./status/results.ts";
import type { Work } from "./work.ts";

export interface Applied {
  readonly decision: Decision;
  /** The result of the deploy or, if there was none, of the comparison. */
  readonly rendered: MaskedResult;
  readonly deployed: MaskedResult | undefined;
  readonly refused?: undefined;
}

export interface Refused {
  /** Why nothing is deployed: another deployment with the same discriminator was there first. */
  readonly refused: string;
  readonly retry: "soon" | "person";
  readonly rendered: MaskedResult;
}

export async function apply(work: Work, { commit, steps }: Project): Promise<Applied | Refused> {
  const { deployment, deps, status } = work;
  const { spec } = deployment;
  const input: DecisionInput = {
    spec,
    status: deployment.status,
    generation: deployment.generation,
    now: deps.clock.now(),
    retrying: work.retrying,
    retryAt: deps.retryAt?.(deployment),
    requested: deployment.deployRequest !== undefined,
    dryRun: steps.dryRun,
  };
  const regardless = deployRegardless(input);
  if (mayChangeTarget(regardless)) await deps.deployments.whenSynced(work.signal);
  const unsure = mayChangeTarget(regardless) && mayCollide(deployment, deps.deployments.all());
  if (regardless === undefined && !(await deps.parts.comparesFirst(work, commit))) return deployAtOnce();

  const compared = regardless === undefined || unsure ? await steps.compare() : undefined;
  const confirmed = deployment.annotations[annotation.confirmPrune];
  const decision: Decision = compared
    ? decide({ ...input, pruneConfirmed: isConfirmed(compared, confirmed) }, compared.objectsHash)
    : { deploy: regardless, waitsForApproval: false, validate: spec.validate };
  status.set({ lastPrepareError: undefined }); // it rendered, so the project is valid, whatever the cluster does with it

  const earlier = decision.deploy && compared ? await steps.findEarlier(compared) : undefined;
  if (earlier !== undefined && compared) {
    steps.announceEarlier(earlier);
    return { refused: earlier.message, retry: earlier.retry, rendered: compared };
  }
  const deployed = decision.deploy === undefined ? undefined : await steps.deploy({ why: decision.deploy, compared });
  if (decision.waitsForApproval && compared) steps.announceApproval(compared);
  return { decision, deployed, rendered: deployed ?? compared ?? (await steps.compare()) };

  /** Deploys without comparing first. A deploy without any effect had nothing to deploy and counts as a comparison. */
  async function deployAtOnce(): Promise<Applied> {
    const hasEffect = (result: CommandResult) =>
      result.objectsHash !== deployment.status.lastObjectsHash || result.errors.length > 0 || differs(result);
    status.set({ lastPrepareError: undefined });
    const rendered = await steps.deploy({ why: "objects-changed", hasEffect });
    if (!hasEffect(rendered)) return { decision: decide(input, rendered.objectsHash), rendered, deployed: undefined };
    const decision: Decision = { deploy: "objects-changed", waitsForApproval: false, validate: spec.validate };
    return { decision, rendered, deployed: rendered };
  }
}

/**
 * A deployment that was never deployed, or whose spec may have changed its target, may collide with an existing one.
 */
function mayChangeTarget(reason: Decision["deploy"]): boolean {
  return reason === "never-deployed" || reason === "spec-changed";
}
