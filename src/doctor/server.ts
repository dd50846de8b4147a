/** Checks the API server: reachable, with the KluctlDeployment CRD, and its clock in sync with this machine's. */
import type { DoctorCluster } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

/** Smaller differences between machines are normal and harmless. */
const mostSkewMs = 5_000;

export async function examineServer(cluster: Pick<DoctorCluster, "server" | "resources">): Promise<Finding[]> {
  const subject = "API server";
  const { version, aheadMs } = await cluster.server();
  const skew = `${(Math.abs(aheadMs) / 1_000).toFixed(0)} s ${aheadMs > 0 ? "ahead of" : "behind"} the API server's`;
  const clock =
    Math.abs(aheadMs) <= mostSkewMs
      ? ok("clock", "in sync with the API server")
      : warning(
          "clock",
          `this machine's clock is ${skew}: after a swap, interval checks start too early or too late`,
          "synchronize both with NTP",
        );
  return [ok(subject, `reachable, ${version}`), clock, definition(await cluster.resources())];
}

function definition(resources: readonly string[]): Finding {
  const subject = "KluctlDeployment";
  const advice = "kubectl apply --server-side -f chart/files/kluctldeployments.yaml";
  if (!resources.includes("kluctldeployments")) {
    return problem(subject, "the cluster does not serve gitops.kluctl.io/v1beta1", advice);
  }
  if (!resources.includes("kluctldeployments/status")) {
    return problem(subject, "its CRD has no status subresource, so status cannot be written", advice);
  }
  return ok(subject, "gitops.kluctl.io/v1beta1 is served");
}
