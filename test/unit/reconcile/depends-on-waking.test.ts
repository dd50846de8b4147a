import { expect, onTestFinished, test, vi } from "vitest";
import { QueueUnavailableError } from "../../../src/errors.ts";
import {
  annotation,
  type Condition,
  type Deployment,
  type DeploymentChange,
  type Request,
} from "../../../src/model.ts";
import { startDependencyWaking } from "../../../src/guards/depends-on-waking.ts";
import { aDeployment } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

function aWatch() {
  const requests: Request[] = [];
  let emit: (change: DeploymentChange) => void = () => undefined;
  const redis = { failing: false, refused: 0 };
  const enqueue = async (some: readonly Request[]) => {
    if (redis.failing) redis.refused++;
    if (redis.failing) throw new QueueUnavailableError("down");
    return { queued: requests.push(...some) };
  };
  const stop = startDependencyWaking({
    deployments: { onChange: (callback) => void (emit = callback) },
    queue: { enqueue },
    log: silentLog,
  });
  const woken = () =>
    requests.map((request) => (request.kind === "reconcile" ? request.deployment.name : request.kind));
  return {
    redis,
    stop,
    woken,
    added: (deployment: Deployment) => emit({ kind: "added", deployment }),
    removed: (deployment: Deployment) => emit({ kind: "removed", deployment, previous: deployment }),
    changed: (deployment: Deployment, previous: Deployment) => emit({ kind: "changed", deployment, previous }),
    wakes: (...names: string[]) => vi.waitFor(() => expect(woken()).toEqual(names), patience),
  };
}

const readyIs = (status: Condition["status"], reason = "any"): Condition[] => [
  { type: "Ready", status, reason, message: "", lastTransitionTime: "" },
];

function one(name: string, dependsOn = "", conditions: Condition[] = readyIs("True"), commit = "c1"): Deployment {
  return aDeployment({
    key: { namespace: "shop", name },
    annotations: dependsOn === "" ? {} : { [annotation.dependsOn]: dependsOn },
    status: { observedGeneration: 1, observedCommit: commit, conditions },
  });
}

const waiting = readyIs("Unknown", "DependencyNotReady");

test("a waiting deployment is requested when its dependency becomes ready or reaches another commit", async () => {
  const watch = aWatch();
  watch.added(one("app", "db", waiting));
  watch.added(one("other"));
  await watch.wakes("app");
  watch.changed(one("db", "", readyIs("Unknown")), one("db", "", readyIs("False")));
  watch.changed(one("other", "", readyIs("True"), "c2"), one("other"));
  watch.changed(one("db"), one("db", "", readyIs("Unknown")));
  await watch.wakes("app", "app");
  watch.changed(one("db", "", readyIs("True"), "c2"), one("db"));
  await watch.wakes("app", "app", "app");
});

test("a dependency that is created or deleted requests only the deployments that it blocks", async () => {
  const watch = aWatch();
  watch.added(one("app", "db", waiting));
  watch.added(one("fine", "db"));
  await watch.wakes("app");
  watch.added(one("db", "", readyIs("Unknown")));
  await watch.wakes("app", "app");
  watch.removed(one("db"));
  await watch.wakes("app", "app", "app");
});

test("an annotation that closes or opens a cycle requests all deployments in it", async () => {
  const watch = aWatch();
  watch.added(one("a", "b"));
  watch.added(one("b"));
  watch.changed(one("b", "a"), one("b"));
  await watch.wakes("b", "a");
  const stuck = readyIs("False", "DependencyImpossible");
  watch.changed(one("a", "b", stuck), one("a", "b"));
  watch.changed(one("b", "a", stuck), one("b", "a"));
  watch.changed(one("b", "", stuck), one("b", "a", stuck));
  await watch.wakes("b", "a", "b", "a");
});

test("a deployment with a ready-expr that waits is requested at any change of its dependency", async () => {
  const watch = aWatch();
  const byExpression = (name: string, conditions: Condition[]) => {
    const deployment = one(name, "db", conditions);
    return { ...deployment, annotations: { ...deployment.annotations, [annotation.readyExpr]: "has(dep.status)" } };
  };
  watch.added(byExpression("waits", waiting));
  watch.added(byExpression("runs", readyIs("True")));
  watch.added(one("usual", "db", waiting));
  watch.added(one("db", "", readyIs("False")));
  const before = watch.woken().length;
  watch.changed(one("db", "", readyIs("False"), "c2"), one("db", "", readyIs("False")));
  await vi.waitFor(() => expect(watch.woken().slice(before)).toContain("waits"), patience);
  expect(watch.woken().slice(before)).not.toContain("runs");
});

test("a deployment that was blocked when the server started is requested, even if its dependency does not change", async () => {
  const watch = aWatch();
  watch.added(one("db"));
  watch.added(one("app", "db", waiting));
  watch.added(one("fine", "db"));
  watch.added(one("cyclic", "", readyIs("False", "DependencyImpossible"))); // its annotation was removed meanwhile
  await watch.wakes("app", "cyclic");
});

test("a waiting deployment is requested again until Redis accepts it, and once more by a server that stops", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const [watch, stopped] = [aWatch(), aWatch()];
  for (const { added, changed, redis } of [watch, stopped]) {
    redis.failing = true;
    added(one("app", "db"));
    changed(one("db"), one("db", "", readyIs("Unknown")));
  }
  await vi.advanceTimersByTimeAsync(1_000);
  await stopped.stop();
  watch.changed(one("db", "", readyIs("True"), "c2"), one("db"));
  for (const { redis } of [watch, stopped]) redis.failing = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect([watch.redis.refused, stopped.redis.refused]).toEqual([1, 2]);
  expect(watch.woken()).toEqual(["app"]);
  expect(stopped.woken()).toEqual([]);
});
