/** The actions of users and faults in an episode: commands that fast-check draws, replays and shrinks. */
import fc from "fast-check";
import { createOrders, type Orders, type Traits } from "../orders.ts";
import type { Command } from "./command.ts";
import { long, short, toFault, toOutage, toPair, toReplace, toStrike } from "./faults.ts";
import { toApprove, toEdit, toPause, toRecreate, toRequest, toSuspend, toTamper } from "./people.ts";
import { toClose, toMerge, toOpen, toPullStrike, toPushToPull, toRetarget } from "./pull-requests.ts";
import { toCalmPush, toDeleteBranch, toLate, toPush, toRegret, toRewrite, toSetBack } from "./pushes.ts";

/**
 * Commands in any order, and then pairs of faults that nothing follows: a later push hides what they leave behind, as the
 * start of a server does. An episode that keeps its servers is short for the same reason.
 */
export function aStory(traits: Traits): fc.Arbitrary<readonly Command[]> {
  const { fewest, most, fewestLast, mostLast } = lengthsOf(traits);
  const orders = createOrders(traits);
  // Not fc.commands(): what that replays depends on more than the path.
  const commands = fc.array(anyCommand(orders, traits), { minLength: fewest, maxLength: most, size: "max" });
  const lastPair = orders.pair.map((pair) => toPair({ ...pair, waits: true }));
  const last = fc.array(lastPair, { minLength: fewestLast, maxLength: mostLast, size: "max" });
  return fc.tuple(commands, last).map(([all, end]) => [...all, ...end]);
}

/** Numbers of commands. */
function lengthsOf({ isShort, keepsServers }: Traits) {
  if (isShort) return { fewest: 4, most: 7, fewestLast: keepsServers ? 1 : 0, mostLast: 1 };
  if (keepsServers) return { fewest: 2, most: 8, fewestLast: 1, mostLast: 3 };
  return { fewest: 12, most: 24, fewestLast: 0, mostLast: 2 };
}

function anyCommand(orders: Orders, { isShort, replaces, proposes, keepsServers }: Traits): fc.Arbitrary<Command> {
  const { deployment, delivery, push, pull } = orders;
  const weighted: { weight: number; arbitrary: fc.Arbitrary<Command> }[] = [
    { weight: 7, arbitrary: push.map(toPush) },
    { weight: 3, arbitrary: orders.regret.map(toRegret) },
    { weight: 2, arbitrary: push.map(toCalmPush) },
    { weight: 1, arbitrary: fc.tuple(deployment, delivery).map(toSetBack) },
    { weight: 1, arbitrary: fc.tuple(deployment, delivery).map(toRewrite) },
    { weight: proposes ? 0 : 1, arbitrary: orders.branch.map(toDeleteBranch) }, // a forge refuses to delete the default branch
    { weight: 1, arbitrary: fc.constant(toLate()) },
    { weight: 1, arbitrary: deployment.map(toEdit) },
    { weight: 1, arbitrary: deployment.map(toSuspend) },
    { weight: 1, arbitrary: orders.request.map(toRequest) },
    { weight: 1, arbitrary: deployment.map(toRecreate) },
    { weight: 1, arbitrary: orders.deleting.map(toRecreate) },
    { weight: 1, arbitrary: fc.tuple(deployment, orders.object, fc.boolean()).map(toTamper) },
    { weight: 1, arbitrary: fc.constant(toApprove()) },
    { weight: 8, arbitrary: orders.strike.map(toStrike) },
    { weight: keepsServers ? 8 : 3, arbitrary: orders.pair.map(toPair) },
    { weight: 3, arbitrary: orders.fault.map(toFault) },
    { weight: 1, arbitrary: fc.constant(toPause()) },
    { weight: keepsServers ? 0 : replaces ? 6 : 1, arbitrary: orders.replica.map(toReplace) },
    { weight: 1, arbitrary: (isShort ? fc.constant(short) : fc.constantFrom(short, short, short, long)).map(toOutage) },
  ];
  if (proposes)
    weighted.push(
      { weight: 5, arbitrary: pull.map(toOpen) },
      { weight: 3, arbitrary: fc.tuple(pull, fc.boolean()).map(toPushToPull) },
      { weight: 2, arbitrary: pull.map(toRetarget) },
      { weight: 2, arbitrary: pull.map(toClose) },
      { weight: 3, arbitrary: fc.tuple(pull, fc.constantFrom("merge", "squash", "rebase")).map(toMerge) },
      { weight: 6, arbitrary: orders.pullStrike.map(toPullStrike) },
    );
  return fc.oneof(...weighted);
}
