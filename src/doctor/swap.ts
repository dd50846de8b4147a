/** Predicts what a swap would do to a deployment, from its rendered objects. Pure. */
import { type Deployment, keyText } from "../model.ts";
import { apiOf } from "../apis/apis.ts";
import { decide, type DeployReason } from "../reconcile/decide.ts";
import { type Finding, ok, warning } from "./finding.ts";

/** The result of the server's `kluctl diff` of a deployment. */
export interface SwapComparison {
  readonly commit: string;
  readonly objectsHash: string;
  /** The remote no longer has the commit in the status, so a newer one was rendered. */
  readonly moved: boolean;
}

const reasons: Record<DeployReason, string> = {
  "never-deployed": "it was never deployed",
  "objects-changed": "its objects have changed",
  requested: "a deploy was requested and not handled yet",
  "approval-changed": "its approval changed and was not handled yet",
  "spec-changed": "its spec changed and was not handled yet",
  "after-dry-run": "its last deploy was a dry run; kluctl's controller waits for a change",
  "prune-confirmed": "a prune was confirmed and not handled yet",
  interval: "its deployInterval has passed",
  retry: "its last deploy failed and its retryInterval has passed; kluctl's controller waits for a change",
};

export function judgeSwap(
  deployment: Deployment,
  { commit, objectsHash, moved }: SwapComparison,
  now: number,
): Finding {
  const { key, spec, status, generation } = deployment;
  const subject = keyText(key);
  const { lastObjectsHash } = status;
  const input = { spec, status, generation, now, retrying: false };
  const { deploy, waitsForApproval } = decide(input, objectsHash);
  const differs = status.lastDeployResult !== undefined && lastObjectsHash !== objectsHash;

  const { foreignHashes: why } = apiOf(deployment);
  if (differs && why !== undefined) {
    return warning(subject, `would be deployed: ${why}`, "nothing to do; objects that match git are not changed");
  }
  if (differs) {
    const outcome = spec.manual
      ? approvalLost(deployment, objectsHash, deploy !== undefined)
      : "would be deployed again";
    const hashes = `the hash of its objects is ${short(objectsHash)} here and ${short(lastObjectsHash)} in the status`;
    if (moved)
      return warning(
        subject,
        `${outcome}: the remote no longer has commit ${short(status.observedCommit)}, ${short(commit)} was rendered`,
      );
    return warning(
      subject,
      `${outcome}: ${hashes}, for the same commit ${short(commit)}`,
      "use the controller's kluctl version, and check for values that do not come from git",
    );
  }
  if (deploy !== undefined) return warning(subject, `would be deployed: ${reasons[deploy]}`);
  if ((status.lastDeployResult?.errors ?? 0) > 0 && !spec.manual) {
    return warning(subject, "its last deploy failed: Towline retries, kluctl's controller waits for a change");
  }
  if (waitsForApproval) return ok(subject, `a change still waits for approval (${short(objectsHash)})`);
  return ok(subject, `nothing would be deployed: the hash of its objects matches the status (${short(objectsHash)})`);
}

function approvalLost({ spec }: Deployment, objectsHash: string, deploys: boolean): string {
  if (deploys) return "would be deployed again, because these objects are approved";
  return spec.manualObjectsHash === undefined || spec.manualObjectsHash === objectsHash
    ? "would wait for an approval"
    : "would need a new approval";
}

function short(hash: string | undefined): string {
  return hash === undefined ? "none" : hash.slice(0, 8);
}
