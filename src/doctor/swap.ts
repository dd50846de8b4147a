/** What a swap would do to a deployment, given what its project renders to here. Pure. */
import { type Deployment, keyText } from "../model.ts";
import { legacyApiVersion } from "../kube/legacy/resource.ts";
import { decide, type DeployReason } from "../reconcile/decide.ts";
import { type Finding, ok, warning } from "./finding.ts";

/** A `kluctl diff` of the deployment, as the server would make it. */
export interface Compared {
  readonly commit: string;
  readonly objectsHash: string;
  /** Another commit was wanted, the one that the status tells of; the remote does not have it any more. */
  readonly moved: boolean;
}

const reasons: Record<DeployReason, string> = {
  "never-deployed": "nobody has deployed it yet",
  "objects-changed": "its objects have changed",
  asked: "somebody asked for it, and nobody has dealt with it yet",
  "approval-changed": "its approval was changed, and nobody has dealt with it yet",
  "spec-changed": "its spec was changed, and nobody has dealt with it yet",
  "prune-confirmed": "a prune of it was confirmed, and nobody has dealt with it yet",
  interval: "its deployInterval is over",
  retry: "its last deploy failed, and its retryInterval is over; kluctl's controller waits for a change",
};

export function judgeSwap(deployment: Deployment, { commit, objectsHash, moved }: Compared, now: number): Finding {
  const { key, spec, status, generation } = deployment;
  const subject = keyText(key);
  const { lastObjectsHash } = status;
  const input = { spec, status, generation, now, retrying: false };
  const { deploy, waitsForApproval } = decide(input, objectsHash);
  const differs = status.lastDeployResult !== undefined && lastObjectsHash !== objectsHash;

  if (differs && deployment.apiVersion === legacyApiVersion) {
    const why = "the flux-kluctl-controller makes the hash in its status in another way";
    return warning(
      subject,
      `would be deployed: ${why}`,
      "nothing to do; objects that are as git says stay as they are",
    );
  }
  if (differs) {
    const outcome = spec.manual
      ? approvalLost(deployment, objectsHash, deploy !== undefined)
      : "would be deployed again";
    const hashes = `its objects have the hash ${short(objectsHash)} here and ${short(lastObjectsHash)} in the status`;
    if (moved)
      return warning(
        subject,
        `${outcome}: commit ${short(status.observedCommit)} is gone from the remote, ${short(commit)} was rendered`,
      );
    return warning(
      subject,
      `${outcome}: ${hashes}, of the same commit ${short(commit)}`,
      "use the kluctl version of the controller, and look for values that come from elsewhere than git",
    );
  }
  if (deploy !== undefined) return warning(subject, `would be deployed: ${reasons[deploy]}`);
  if ((status.lastDeployResult?.errors ?? 0) > 0 && !spec.manual) {
    return warning(subject, "its last deploy failed: Towline tries again, kluctl's controller waits for a change");
  }
  if (waitsForApproval) return ok(subject, `a change waits for approval, as before (${short(objectsHash)})`);
  return ok(subject, `nothing would be deployed: the objects' hash is that of the status (${short(objectsHash)})`);
}

function approvalLost({ spec }: Deployment, objectsHash: string, deploys: boolean): string {
  if (deploys) return "would be deployed again, by an approval of these objects";
  return spec.manualObjectsHash === undefined || spec.manualObjectsHash === objectsHash
    ? "would wait for an approval"
    : "would need a new approval";
}

function short(hash: string | undefined): string {
  return hash === undefined ? "none" : hash.slice(0, 8);
}
