/** Pushes to the repositories. */
import type { Push } from "../history.ts";
import type { BranchOrder, DeliveryKind, PushOrder, RegretOrder } from "../orders.ts";
import { type DeploymentPlan, extraObject, libraryContent, libraryFile, objectNames } from "../projects.ts";
import type { Changes, Repository } from "../repository.ts";
import { command, type Command, type Model, planOf, type Real, repositoryOf } from "./command.ts";
import { deliver, type DeliveryOrder } from "./deliver.ts";
import { waitForRun, waitForSilence, waitForWords } from "./waiting.ts";

export function toPush(order: PushOrder): Command {
  const { kind, delivery, until } = order;
  const wait = until === "nothing" ? "" : `, until ${until}`;
  return command(`push ${kind} of ${order.deployment}.${order.object} (${delivery}${wait})`, async (model, real) => {
    const deployment = planOf(real, order.deployment);
    const repository = repositoryOf(real, kind === "change included" ? "base" : deployment.repo);
    const changes = changesOf(order, deployment, repository, model, real);
    const push = await repository.push(changes, kind);
    await deliver(push, order, real);
    await waitForRun(real, deployment.name, push, until);
  });
}

/**
 * The server learns only after some time what it can skip for a deployment; a push after that must still be noticed.
 */
export function toCalmPush(drawn: PushOrder): Command {
  const order: PushOrder = { ...drawn, kind: drawn.kind === "change included" ? drawn.kind : "change" };
  const words = `when nothing happens any more, push ${order.kind} of ${order.deployment} among those checked often or reading elsewhere (${order.delivery})`;
  return command(words, async (model, real) => {
    await waitForSilence(real);
    const skipped = real.stage.plan.deployments.filter(({ often, includes }) => often || includes !== undefined);
    const chosen = skipped[order.deployment % skipped.length] as DeploymentPlan;
    const deployment = real.stage.plan.deployments.indexOf(chosen);
    await toPush({ ...order, deployment }).run(model, real);
  });
}

function changesOf(
  { kind, object }: PushOrder,
  deployment: DeploymentPlan,
  repository: Repository,
  model: Model,
  { stage, namespace }: Real,
): readonly Changes[] {
  const { plan } = stage;
  const color = `color-${++model.pushes}`;
  const name = objectNames[object] as string;
  const file = plan.contentFile(deployment, name);
  const projectFile = `${deployment.path}/deployment.yaml`;
  switch (kind) {
    case "change":
      return [new Map([[file, plan.content(deployment, name, color)]])];
    case "change and back": {
      const before = repository.tree().get(file) ?? "";
      return [new Map([[file, plan.content(deployment, name, color)]]), new Map([[file, before]])];
    }
    case "add object":
      return [new Map([[plan.contentFile(deployment, extraObject), plan.content(deployment, extraObject, color)]])];
    case "remove object": {
      const extra = plan.contentFile(deployment, extraObject);
      return [new Map(repository.tree().has(extra) ? [[extra, undefined]] : [])];
    }
    case "change outside":
      return [new Map([["README.md", `${color}\n`]])];
    case "change included":
      return [new Map([[libraryFile, libraryContent(namespace, color)]])];
    case "break":
      return [new Map([[projectFile, "deployments: [\n"]])];
    case "mend":
      return [new Map([[projectFile, plan.files(deployment.repo).get(projectFile) ?? ""]])];
    case "revert":
      return [changesBack(repository)];
  }
}

/** The changes that restore the files of the previous commit; none if there is no other. */
export function changesBack(repository: Repository): Changes {
  const commit = repository.commits().at(-2);
  if (commit === undefined) return new Map();
  const [before, now] = [repository.treeAt(commit), repository.tree()];
  const paths = [...new Set([...before.keys(), ...now.keys()])];
  const pairs = paths.map((path) => [path, before.get(path)] as const);
  return new Map(pairs.filter(([path, text]) => now.get(path) !== text));
}

/** Changes all objects of a deployment and reverts the change while kluctl is applying it. */
export function toRegret({ deployment, delivery, to }: RegretOrder): Command {
  return command(`push and regret of ${deployment} (the revert ${delivery})`, async (model, real) => {
    const { name } = planOf(real, deployment);
    const push = await changeAll(deployment, to, model, real);
    await waitForRun(real, name, push, real.stage.isReal ? "a run" : "an object");
    await takeBack(deployment, { delivery, to }, real);
  });
}

export async function changeAll(index: number, to: number, model: Model, real: Real): Promise<Push> {
  const deployment = planOf(real, index);
  const repository = repositoryOf(real, deployment.repo);
  const color = `color-${++model.pushes}`;
  const { plan } = real.stage;
  const change = objectNames.map(
    (name) => [plan.contentFile(deployment, name), plan.content(deployment, name, color)] as const,
  );
  const push = await repository.push([new Map(change)], "Change all");
  await deliver(push, { delivery: "delivered", to }, real);
  return push;
}

export async function takeBack(index: number, order: DeliveryOrder, real: Real): Promise<void> {
  const repository = repositoryOf(real, planOf(real, index).repo);
  const push = await repository.push([changesBack(repository)], "Change all back");
  await deliver(push, order, real);
}

export function toSetBack([index, delivery]: readonly [number, DeliveryKind]): Command {
  return command(`force-push of ${index} to the commit before (${delivery})`, async (_, real) => {
    const repository = repositoryOf(real, planOf(real, index).repo);
    const before = repository.commits().at(-2);
    if (before !== undefined) await deliver(await repository.setBack(before), { delivery, to: index }, real);
  });
}

export function toRewrite([index, delivery]: readonly [number, DeliveryKind]): Command {
  return command(`rewrite of ${index}'s head (${delivery})`, async (_, real) => {
    const push = await repositoryOf(real, planOf(real, index).repo).rewrite();
    await deliver(push, { delivery, to: index }, real);
  });
}

export function toDeleteBranch({ deployment: index, delivery, moves }: BranchOrder): Command {
  const back = moves ? "at another commit" : "as it was";
  return command(`delete ${index}'s branch (${delivery}), and make it again ${back}`, async (model, real) => {
    const deployment = planOf(real, index);
    const repository = repositoryOf(real, deployment.repo);
    const order = { delivery, to: index };
    if (repository.head() !== undefined) await deliver(await repository.deleteBranch(), order, real);
    await waitForWords(real, 3);
    const { plan } = real.stage;
    const content = plan.content(deployment, objectNames[0], `color-${++model.pushes}`);
    const change = new Map([[plan.contentFile(deployment, objectNames[0]), content]]);
    const push = await (moves ? repository.push([change], "Begin again") : repository.restoreBranch());
    await deliver(push, { delivery: "delivered", to: index }, real);
  });
}

export function toLate(): Command {
  return command("deliver what is late, the newest first", async (_, { late }) => {
    for (const send of late.splice(0).reverse()) await send();
  });
}
