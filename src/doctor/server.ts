/** The API server itself: is it there, does it know KluctlDeployments, does its clock agree with ours. */
import type { DoctorCluster } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

/** Less is usual between machines; what comes of more is told in the finding. */
const mostSkewMs = 5_000;

export async function examineServer(cluster: Pick<DoctorCluster, "server" | "resources">): Promise<Finding[]> {
  const subject = "API server";
  const { version, aheadMs } = await cluster.server();
  const skew = `${(Math.abs(aheadMs) / 1_000).toFixed(0)} s ${aheadMs > 0 ? "ahead of" : "behind"} its own`;
  const clock =
    Math.abs(aheadMs) <= mostSkewMs
      ? ok("clock", "agrees with the API server's")
      : warning(
          "clock",
          `this machine's is ${skew}: what is due in an interval comes too early or too late after a swap`,
          "set both by NTP",
        );
  return [ok(subject, `it is there, ${version}`), clock, definition(await cluster.resources())];
}

function definition(resources: readonly string[]): Finding {
  const subject = "KluctlDeployment";
  const advice = "kubectl apply --server-side -f chart/files/kluctldeployments.yaml";
  if (!resources.includes("kluctldeployments")) {
    return problem(subject, "the cluster does not know gitops.kluctl.io/v1beta1", advice);
  }
  if (!resources.includes("kluctldeployments/status")) {
    return problem(subject, "its definition has no status subresource, so no status can be written", advice);
  }
  return ok(subject, "gitops.kluctl.io/v1beta1 is served");
}
