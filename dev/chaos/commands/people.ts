/** What users do with deployments and their objects. */
import type { RequestOrder } from "../orders.ts";
import { objectNames } from "../projects.ts";
import { command, type Command, planOf } from "./command.ts";
import { waitForWords } from "./waiting.ts";

export function toEdit(index: number): Command {
  return command(`edit the spec of ${index}`, async (model, real) => {
    const deployment = planOf(real, index);
    await real.stage.people.patch(deployment, { spec: { args: { edit: ++model.pushes } } });
  });
}

export function toSuspend(index: number): Command {
  return command(`suspend or resume ${index}`, async ({ suspended }, real) => {
    const deployment = planOf(real, index);
    const suspend = !suspended.has(deployment.name);
    if (suspend) suspended.add(deployment.name);
    else suspended.delete(deployment.name);
    await real.stage.people.patch(deployment, { spec: { suspend } });
  });
}

/** As `kluctl gitops` writes it. */
export function toRequest({ deployment, kind, dryRun }: RequestOrder): Command {
  return command(`request ${kind} of ${deployment}${dryRun ? " as a dry run" : ""}`, async (model, real) => {
    const overrides = dryRun && { overridesPatch: { spec: { dryRun } } };
    const request = JSON.stringify({ requestValue: `request-${++model.pushes}`, ...overrides });
    const annotations = { [`kluctl.io/request-${kind}`]: request };
    await real.stage.people.patch(planOf(real, deployment), { metadata: { annotations } });
  });
}

export function toRecreate(index: number): Command {
  return command(`delete and create ${index} again`, async ({ suspended }, real) => {
    const deployment = planOf(real, index);
    suspended.delete(deployment.name);
    await Promise.all(real.pending.splice(0)); // creations run one after the other
    await real.stage.people.remove(deployment);
    real.pending.push(real.stage.people.create(deployment));
  });
}

export function toTamper([index, object, destroys]: readonly [number, number, boolean]): Command {
  const name = objectNames[object] as string;
  return command(`${destroys ? "delete" : "touch"} object ${name} of ${index}`, async (_, { stage, ...real }) => {
    const deployment = planOf({ stage, ...real }, index);
    await (destroys ? stage.people.destroy(deployment, name) : stage.people.touch(deployment, name));
  });
}

export function toApprove(): Command {
  return command("approve what waits", async (_, { stage }) => {
    for (const deployment of stage.plan.deployments.filter(({ spec }) => spec["manual"] === true)) {
      const manualObjectsHash = stage.ledger.liveStatuses().get(deployment.name)?.status.lastObjectsHash;
      if (manualObjectsHash !== undefined) await stage.people.patch(deployment, { spec: { manualObjectsHash } });
    }
  });
}

export function toPause(): Command {
  return command("let things happen", (_, real) => waitForWords(real, 6));
}
