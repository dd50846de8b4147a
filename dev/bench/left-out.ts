/**
 * The cost of interval checks in which nothing can have changed, and how soon drift is detected before the next
 * interval.
 */
import { setTimeout as delay } from "node:timers/promises";
import { now } from "./clock.ts";
import { isReady } from "./cluster.ts";
import { measure, measurePeer } from "./idle-loop.ts";
import { type Measurement, median, milliseconds, type Report, spread } from "./measurement.ts";
import { specOf } from "./project.ts";
import type { Stage } from "./stage.ts";
import { leftOutLoops, type Towline } from "./towline.ts";

const goals = { ratio: 0.02, driftMs: 2_000 };
const intervalMs = 10_000;

export const leftOut: Measurement = {
  name: "left-out",
  title: "Skipped reconciliations, and drift",
  async run(stage) {
    const count = stage.quick ? 10 : 40;
    const forMs = stage.quick ? 22_000 : 42_000;
    const { skipped, audited, drifts } = await measureOurs(stage, count, forMs);
    const peer = await measurePeer(stage, forMs, "bench-left-out-peer");
    const ratio = skipped.cpuMs / peer.cpuMs;
    return {
      how:
        `${count} deployments of three objects with \`interval: 10s\`, measured for ${Math.round(forMs / 1_000)} s in which nothing changes. ` +
        "kluctl's controller has three of them, because it could not reconcile more in that time. CPU is user and system time of the server and everything it started, including " +
        "`git ls-remote` and what the server uses while idle, divided by the number of reconciliations. In the audited row, each skipped check is run anyway, one at a time, " +
        `to see whether it would have found something; ${audited.audits} of them ran. ` +
        `Then one object of each of ${drifts.length} deployments is edited, one after the other: the clock runs from the API server's answer to the status that reports the drift.`,
      tables: [
        {
          head: ["mean per reconciliation", "reconciliations", "CPU time"],
          rows: [
            ["towline, skipped", String(skipped.loops), milliseconds(skipped.cpuMs)],
            ["kluctl controller run", String(peer.loops), milliseconds(peer.cpuMs)],
            ["ratio", "", ratio.toFixed(3)],
            ["towline, skipped and audited", String(audited.loops), milliseconds(audited.cpuMs)],
          ],
        },
        { head: ["drift", "p50", "p90", "max"], rows: [["edit → status", ...spread(drifts)]] },
      ],
      goals: [
        {
          what: "audited skips that would have found something",
          wanted: "0",
          measured: String(audited.wrong),
          met: audited.wrong === 0 && audited.audits > 0,
        },
        {
          what: "skipped reconciliation: CPU time, Towline / kluctl's controller",
          wanted: `≤ ${goals.ratio}`,
          measured: ratio.toFixed(3),
          met: ratio <= goals.ratio,
        },
        {
          what: "manual change → drift in the status, p50",
          wanted: `< ${goals.driftMs / 1_000} s`,
          measured: milliseconds(median(drifts)),
          met: median(drifts) < goals.driftMs,
        },
      ],
      memory: [],
    } satisfies Report;
  },
};

async function measureOurs(stage: Stage, count: number, forMs: number) {
  const namespace = "bench-left-out";
  const { url, first } = await stage.countedRepository(namespace);
  await stage.cluster.createNamespace(namespace);
  const seen = await stage.cluster.watch("KluctlDeployment", namespace);
  stage.defer(() => seen.stop());
  const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2 });
  const names = Array.from({ length: count }, (_, i) => `app-${i + 1}`);
  for (const name of names) {
    await stage.cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval: "10s" }));
  }
  await seen.until("the first deploys", (all) => names.every((name) => isReady(all.get(name), first)), 300_000);
  await untilAllAreLeftOut(server, count);
  const countLoops = async () => ({ loops: (await server.metrics()).get(leftOutLoops) ?? 0, wallMs: 0 });
  const skipped = await measure(server.pid, countLoops, forMs);

  const drifts: number[] = [];
  for (const name of names.slice(0, Math.min(20, count / 2))) {
    const path = `/api/v1/namespaces/${namespace}/configmaps/${name}`;
    // kluctl overwrites this field manager's changes, but keeps those of others
    const query = { fieldManager: "kubectl-edit" };
    await stage.cluster.client.request({ method: "PATCH", path, query, body: { data: { release: "by hand" } } });
    const from = now();
    const at = await seen.until(
      `drift of ${name}`,
      (all) => all.get(name)?.status?.lastDriftDetectionResultMessage !== "no drift",
    );
    drifts.push(at - from);
  }
  await server.stop();
  const untouched = names.slice(drifts.length);
  const audited = await measureAudits(stage, namespace, { count: untouched.length, forMs });
  return { skipped, audited, drifts };
}

/** The cost with an audit of every skip, without drift. */
async function measureAudits(stage: Stage, namespace: string, { count, forMs }: { count: number; forMs: number }) {
  const server = await stage.startTowline({ name: `${namespace}-audited`, namespace, concurrency: 2, auditSkips: 1 });
  await untilAllAreLeftOut(server, count);
  const countLoops = async () => ({ loops: (await server.metrics()).get(leftOutLoops) ?? 0, wallMs: 0 });
  const cost = await measure(server.pid, countLoops, forMs);
  const metrics = await server.metrics();
  const sum = (name: string) =>
    [...metrics].filter(([sample]) => sample.startsWith(`${name}{`)).reduce((total, [, value]) => total + value, 0);
  await server.stop();
  return { ...cost, audits: sum("towline_skip_audits_total"), wrong: sum("towline_wrong_skips_total") };
}

/** Waits until about as many checks are skipped in one interval as there are deployments. */
async function untilAllAreLeftOut(server: Towline, count: number): Promise<void> {
  for (let rounds = 0; rounds < 30; rounds++) {
    const before = (await server.metrics()).get(leftOutLoops) ?? 0;
    await delay(intervalMs);
    const after = (await server.metrics()).get(leftOutLoops) ?? 0;
    if (after - before >= count * 0.8) return;
  }
  throw new Error("The reconciliations are not skipped.");
}
