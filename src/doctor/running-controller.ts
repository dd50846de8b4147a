/** Checks whether kluctl's own controller runs in this cluster: the two must not run at the same time. */
import { keyText, type Key } from "../model.ts";
import type { ControllerFacts, DoctorCluster, ListedDeployment, LeaseFacts } from "./cluster.ts";
import { type Finding, ok, warning } from "./finding.ts";

/** The leader election Lease of kluctl's controller, which `controller run` of both uses. */
const leaderLease = "5ab5d0f9.kluctl.io";

/** Holder identity of Towline servers; a suffix follows in mode `exclusive`. */
const towlineHolder = /^towline(?:-|$)/;

/** A status written within this time has an active writer. */
const recentMs = 15 * 60_000;

export interface RunningControllerDeps {
  readonly cluster: Pick<DoctorCluster, "controllers" | "lease" | "ownLease">;
  /** Namespace of kluctl's controller. */
  readonly namespace: string;
  readonly now: () => number;
}

export async function examineController(
  { cluster, namespace, now }: RunningControllerDeps,
  deployments: readonly ListedDeployment[],
): Promise<Finding[]> {
  const [controllers, lease] = await Promise.all([
    cluster.controllers(namespace),
    cluster.lease({ namespace, name: leaderLease }),
  ]);
  return [
    ...describeWorkloads(controllers),
    describeLease(lease, { namespace, name: leaderLease }, now()),
    await describeWrites(cluster, deployments, now()),
  ];
}

function describeWorkloads(controllers: readonly ControllerFacts[] | "forbidden"): Finding[] {
  if (controllers === "forbidden") {
    return [
      ok(
        "Deployment",
        "not checked whether kluctl's own controller runs: no permission to list Deployments. The Lease and the status writes below show it too",
      ),
    ];
  }
  if (controllers.length === 0) return [ok("Deployment", "none is labelled control-plane=kluctl-controller")];
  return controllers.map(describeWorkload);
}

function describeWorkload({ key, image, wanted, ready }: ControllerFacts): Finding {
  const subject = keyText(key);
  const what = `runs ${image}, ${ready} of ${wanted} ready`;
  if (/towline/i.test(image)) return ok(subject, `${what}: already Towline`);
  if (wanted === 0) return ok(subject, `scaled to 0 (${image})`);
  const stop = `kubectl -n ${key.namespace} scale deployment ${key.name} --replicas=0`;
  return warning(subject, what, `stop it before Towline starts (${stop}), or replace its image with Towline's`);
}

function describeLease(lease: LeaseFacts | undefined, key: Key, now: number): Finding {
  const subject = `Lease ${keyText(key)}`;
  if (lease === undefined) return ok(subject, "not held");
  const held = `${lease.holder}, ${ago(now - lease.renewedAt)}`;
  if (now - lease.renewedAt > lease.durationMs) return ok(subject, `expired, last held by ${held}`);
  if (towlineHolder.test(lease.holder)) return ok(subject, `held by a Towline (${held})`);
  return warning(subject, `held by ${held}`, "the holder reconciles the deployments; stop it before the swap");
}

/** Detects a controller that runs elsewhere or under another name by its status writes. */
async function describeWrites(
  cluster: Pick<DoctorCluster, "ownLease">,
  deployments: readonly ListedDeployment[],
  now: number,
): Promise<Finding> {
  const subject = "status writes";
  const recent = deployments
    .flatMap(({ deployment: { key }, lastWriter }) => (lastWriter ? [{ key, ...lastWriter }] : []))
    .filter(({ at }) => now - at < recentMs)
    .sort((a, b) => b.at - a.at);
  // A Towline holds a Lease of the deployment while it reconciles; kluctl's controller does not. A skipped reconciliation
  // takes no Lease, and is recognized by the ID in the status.
  const ours = await Promise.all(
    recent.map(async ({ key, at, isTowline }) => {
      if (isTowline) return true;
      const lease = await cluster.ownLease(key);
      return lease !== undefined && Math.abs(at - lease.renewedAt) < lease.durationMs + 60_000;
    }),
  );
  const others = recent.filter((_, index) => !ours[index]);
  const [newest] = others;
  const count = `${recent.length} of ${deployments.length} deployments`;
  if (newest !== undefined) {
    const write = `${newest.manager} wrote the status of ${keyText(newest.key)} ${ago(now - newest.at)}`;
    return warning(subject, write, "this is kluctl's controller or another server: stop it before the swap");
  }
  if (recent.length > 0) return ok(subject, `only by a Towline in the last 15 minutes (${count})`);
  return ok(subject, "none in the last 15 minutes");
}

function ago(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s ago`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min ago`;
  return minutes < 48 * 60 ? `${Math.round(minutes / 60)} h ago` : `${Math.round(minutes / 60 / 24)} days ago`;
}
