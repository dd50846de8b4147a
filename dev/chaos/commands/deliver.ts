/** Sends deliveries to the servers as a git host does: once, twice, late, or not at all. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Push } from "../history.ts";
import type { DeliveryKind } from "../orders.ts";
import type { PullRequestEvent } from "../pull-requests.ts";
import type { Replica } from "../replica.ts";
import { type Real, seconds } from "./command.ts";

export interface DeliveryOrder {
  readonly delivery: DeliveryKind;
  readonly to: number;
}

export function deliver(push: Push, order: DeliveryOrder, real: Real): Promise<void> {
  return deliverTo(order, real, (replica) => real.stage.deliver(push, replica));
}

async function deliverTo(
  { delivery, to }: DeliveryOrder,
  { stage, faults, late }: Real,
  sendTo: (replica: Replica) => Promise<number>,
): Promise<void> {
  const replica = stage.replicas[to % stage.replicas.length];
  if (replica === undefined || delivery === "dropped") return;
  const send = () => sendTo(replica);
  if (delivery === "late") return void late.push(send);
  const sent = send();
  if (delivery === "killed while delivered") {
    await sleep(to * 5); // before the delivery is queued, while it is, or afterwards
    await faults.strike({ name: "kill", victim: to, buries: false, restartsAfterMs: (1 + (to % 5)) * seconds });
  }
  await sent;
  if (delivery === "delivered twice") await send();
}

export async function deliverEvent(
  event: PullRequestEvent | undefined,
  order: DeliveryOrder,
  real: Real,
): Promise<void> {
  if (event === undefined) return void real.story.push("  the host refuses");
  real.story.push(`  ${event.action} ${event.repository.name}#${event.number}`);
  await deliverTo(order, real, (replica) => real.stage.deliverPullRequest(event, replica));
}
