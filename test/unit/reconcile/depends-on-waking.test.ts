import { expect, test, vi } from "vitest";
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
  const enqueue = (some: readonly Request[]) => Promise.resolve({ queued: requests.push(...some) });
  startDependencyWaking({
    deployments: { onChange: (callback) => void (emit = callback) },
    queue: { enqueue },
    log: silentLog,
  });
  const woken = () =>
    requests.map((request) => (request.kind === "reconcile" ? request.deployment.name : request.kind));
  return {
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
  watch.changed(one("db", "", readyIs("Unknown")), one("db", "", readyIs("False")));
  watch.changed(one("other", "", readyIs("True"), "c2"), one("other"));
  watch.changed(one("db"), one("db", "", readyIs("Unknown")));
  await watch.wakes("app");
  watch.changed(one("db", "", readyIs("True"), "c2"), one("db"));
  await watch.wakes("app", "app");
});

test("a dependency that is created or deleted requests only the deployments that it blocks", async () => {
  const watch = aWatch();
  watch.added(one("app", "db", waiting));
  watch.added(one("fine", "db"));
  watch.added(one("db", "", readyIs("Unknown")));
  await watch.wakes("app");
  watch.removed(one("db"));
  await watch.wakes("app", "app");
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
