/** Times, hashes and states as people read them. */
import type { PageDeployment } from "../routes/page-facts.ts";

export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

/** Of results, whose times kluctl keeps in whole seconds. */
export function durationText(ms: number): string {
  return ms < 1_000 ? "took about a second or less" : `took ${ageText(ms)}`;
}

export function timeText(at: number): string {
  return Number.isFinite(at) ? new Date(at).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "";
}

/** UTC, as all times here. */
export function clockText(at: number | undefined): string {
  return at !== undefined && Number.isFinite(at) ? new Date(at).toISOString().slice(11, 19) : "";
}

/** A phone, or a window as narrow as one. */
export const narrow = matchMedia("(max-width: 760px)");

/** Who has no room has hardly a keyboard. */
export function searchHint(): string {
  return narrow.matches ? "" : " (press /)";
}

export function short(commit: string | undefined): string {
  return commit ? commit.slice(0, 7) : "–";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** `waiting`: for something, or somebody; `working`: by itself, until it is done. */
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

/** `undefined`: not before something changes. */
export function untilText(at: number | undefined, now: number): string | undefined {
  if (at === undefined) return undefined;
  return at - now < 1_000 ? "now" : `in ${ageText(at - now)}`;
}

/** kluctl's short words for a drift, in full: `2 chg, 1 orp`. */
export function driftText(drift: string | undefined): string {
  if (drift === undefined) return "not compared yet";
  const long: Readonly<Record<string, string>> = { chg: "changed", orp: "orphaned", del: "deleted", err: "errors" };
  return drift.replaceAll(/\b(?:chg|orp|del|err)\b/g, (word) => long[word] ?? word);
}

/** Of a deployment, `namespace/name`, on this page. */
export function addressOf(deployment: string): string {
  return `#/deployments/${deployment.split("/").map(encodeURIComponent).join("/")}`;
}

/** `branch main`, `tag v1`; whatever else it is called. */
export function refText(ref: string | undefined): string {
  const [, kind, name] = /^refs\/(heads|tags)\/(.+)$/s.exec(ref ?? "") ?? [];
  return name === undefined ? (ref ?? "") : `${kind === "heads" ? "branch" : "tag"} ${name}`;
}

export function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}
