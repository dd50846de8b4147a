/** Faults, alone and at a moment of a deploy, and servers that are replaced. */
import { setTimeout as sleep } from "node:timers/promises";
import { endings, type Fault } from "../faults.ts";
import type { PairOrder, StrikeOrder } from "../orders.ts";
import { command, type Command, seconds } from "./command.ts";
import { changeAll, takeBack } from "./pushes.ts";
import { longPatienceMs, patienceMs, waitForStrike } from "./waiting.ts";

/** Outages of the API server: one shorter than a Lease, one longer than all attempts of a job. */
export const [short, long] = [8 * seconds, 200 * seconds];

/** Pushes a change and injects a fault at a given moment of its deploy, then reverts the change in some cases. */
export function toStrike({ fault, deployment, regrets, delivery }: StrikeOrder): Command {
  const end = regrets ? `, taken back (${delivery})` : "";
  return command(`push of ${deployment} and ${describeFault(fault)}${end}`, async (model, real) => {
    await real.faults.strike(fault);
    await changeAll(deployment, fault.victim, model, real);
    await waitForStrike(fault, real);
    if (regrets) await takeBack(deployment, { delivery, to: fault.victim + 1 }, real);
  });
}

/** Pushes changes of several deployments, and injects two faults at one moment of the first deploy that reaches it. */
export function toPair({ fault, deployments, waits }: PairOrder): Command {
  const end = waits ? ", until both are over" : "";
  return command(`push of ${deployments.join(", ")} and ${describeFault(fault)}${end}`, async (model, real) => {
    await real.faults.strike(fault);
    for (const deployment of deployments) await changeAll(deployment, fault.victim, model, real);
    await waitForStrike(fault, real, waits ? longPatienceMs : patienceMs);
    const lastsMs = Math.max(fault.forMs ?? 0, fault.second?.forMs ?? 0);
    if (waits) await sleep(lastsMs, undefined, { signal: real.signal });
  });
}

export function toFault(order: Fault): Command {
  return command(describeFault(order), (_, { faults }) => faults.strike(order));
}

export function describeFault({ name, victim, moment, forMs, buries, restartsAfterMs, second }: Fault): string {
  const when = moment ? ` at ${moment.event}${moment.number || ""}` : ` of r${victim + 1}`;
  const howLong = forMs === undefined ? "" : ` for ${forMs / seconds} s`;
  const restart = restartsAfterMs === undefined ? "" : `, started again after ${restartsAfterMs / seconds} s`;
  const end = !endings.includes(name) ? "" : buries && name !== "terminate" ? ", for good" : restart;
  const words = `fault: ${name}${when}${howLong}${end}`;
  return second ? `${words}; ${describeFault({ ...second, moment })}` : words;
}

/**
 * Replaces a replica as a rolling update does, with its jobs queued and running. Not without sweeps: the new one compares
 * everything when it starts.
 */
export function toReplace(index: number): Command {
  return command(`replace r${index + 1}`, async (_, { stage, story }) => {
    const replica = stage.replicas[index % stage.replicas.length];
    if (replica === undefined || stage.buried.has(replica) || !stage.sweeps) return;
    await replica.roll();
    story.push(`  ${replica.name} is of version ${replica.version()} now`);
  });
}

/** The API server is unreachable for all replicas; requests made meanwhile must be carried out afterwards. */
export function toOutage(ms: number): Command {
  return command(`the API server is away for ${ms / seconds} s`, async (_, { faults, signal }) => {
    await faults.strike({ name: "API away", victim: 0, forMs: ms, buries: false });
    await sleep(ms, undefined, { signal });
  });
}
