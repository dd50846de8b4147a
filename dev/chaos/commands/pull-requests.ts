/** What users do with pull requests. */
import type { Fault } from "../faults.ts";
import type { PullOrder } from "../orders.ts";
import { objectNames } from "../projects.ts";
import type { MergeStyle, PullRequest, PullRequestEvent, PullRequests } from "../pull-requests.ts";
import { command, type Command, type Model, planOf, type Real } from "./command.ts";
import { deliver, deliverEvent } from "./deliver.ts";
import { describeFault } from "./faults.ts";
import { waitForStrike } from "./waiting.ts";

export function toOpen(order: PullOrder): Command {
  return command(`open a pull request of ${order.deployment}.${order.object} (${order.delivery})`, (model, real) =>
    openOne(order, model, real),
  );
}

async function openOne(order: PullOrder, model: Model, real: Real): Promise<void> {
  const deployment = planOf(real, order.deployment);
  const object = objectNames[order.object] as string;
  const event = await real.stage.pullRequests?.open(deployment, object, `color-${++model.pushes}`);
  await deliverEvent(event, order, real);
}

/** Acts on a pull request opened earlier, or opens one if there is none. */
function onPull(
  words: string,
  order: PullOrder,
  act: (all: PullRequests, pull: PullRequest, model: Model) => Promise<PullRequestEvent | undefined>,
): Command {
  return command(`${words} pull request ${order.pull} (${order.delivery})`, async (model, real) => {
    const all = real.stage.pullRequests;
    const pull = all?.all[order.pull % all.all.length];
    if (all === undefined || pull === undefined) return openOne(order, model, real);
    await deliverEvent(await act(all, pull, model), order, real);
  });
}

export function toPushToPull([order, rebase]: readonly [PullOrder, boolean]): Command {
  return onPull(rebase ? "rebase" : "push to", order, (all, pull, model) =>
    all.push(pull, `color-${++model.pushes}`, rebase),
  );
}

export function toRetarget(order: PullOrder): Command {
  return onPull("retarget", order, (all, pull) => all.retarget(pull));
}

export function toClose(order: PullOrder): Command {
  return onPull("close or reopen", order, (all, pull) => all.close(pull));
}

export function toMerge([order, style]: readonly [PullOrder, MergeStyle]): Command {
  return command(`${style} pull request ${order.pull} (${order.delivery})`, async (model, real) => {
    const all = real.stage.pullRequests;
    const pull = all?.all[order.pull % all.all.length];
    if (all === undefined || pull === undefined) return openOne(order, model, real);
    const merged = await all.merge(pull, style);
    if (merged) await deliver(merged.push, order, real);
    await deliverEvent(merged?.event, order, real);
  });
}

/** Injects a fault around a comment: that of a new pull request, or of a push to one. */
export function toPullStrike([order, fault]: readonly [PullOrder, Fault]): Command {
  return command(`propose ${order.deployment}.${order.object} and ${describeFault(fault)}`, async (model, real) => {
    await real.faults.strike(fault);
    const told = { ...order, delivery: "delivered" } as const;
    if (order.pull % 2 === 0) await openOne(told, model, real);
    else await toPushToPull([told, true]).run(model, real);
    await waitForStrike(fault, real);
  });
}
