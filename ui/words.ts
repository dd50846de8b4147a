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

export function short(commit: string | undefined): string {
  return commit ? commit.slice(0, 7) : "–";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export type Health = "ready" | "failed" | "waiting" | "suspended";

export function healthOf({ suspended, ready, why }: PageDeployment): Health {
  if (suspended) return "suspended";
  if (why?.startsWith("at work") || why?.startsWith("waits")) return "waiting";
  if (ready === "True") return "ready";
  return ready === "False" ? "failed" : "waiting";
}

export const healthWords: Readonly<Record<Health, string>> = {
  ready: "Ready",
  failed: "Failed",
  waiting: "Waiting",
  suspended: "Suspended",
};

export function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}
