/** The state of a deployment in one word. Pure. */
import type { PageDeployment } from "../src/web/facts.ts";

/** `waiting`: for another event or a user; `working`: reconciliation in progress. */
export type Health = "ready" | "failed" | "waiting" | "working" | "suspended";

export function healthOf({ suspended, ready, why }: PageDeployment): Health {
  if (suspended) return "suspended";
  if (why?.startsWith("in progress")) return "working";
  if (why?.startsWith("waiting")) return "waiting";
  if (ready === "True") return "ready";
  return ready === "False" ? "failed" : "waiting";
}

export const healthWords: Readonly<Record<Health, string>> = {
  ready: "Ready",
  failed: "Failed",
  waiting: "Waiting",
  working: "In progress",
  suspended: "Suspended",
};
