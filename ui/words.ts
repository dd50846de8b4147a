/** Formats times, hashes and states for users. */
import { longDrift } from "../src/views/drift-text.ts";
import type { PagePullRequest } from "../src/web/facts.ts";

export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

/** For results, whose times kluctl stores in whole seconds. */
export function durationText(ms: number): string {
  return ms < 1_000 ? "took about a second or less" : `took ${ageText(ms)}`;
}

export function timeText(at: number): string {
  return Number.isFinite(at) ? new Date(at).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "";
}

/** In UTC, like all times on the page. */
export function clockText(at: number | undefined): string {
  return at !== undefined && Number.isFinite(at) ? new Date(at).toISOString().slice(11, 19) : "";
}

/** Matches phones and equally narrow windows. */
export const narrow = matchMedia("(max-width: 760px)");

/** Narrow screens usually have no keyboard. */
export function searchHint(): string {
  return narrow.matches ? "" : " (press /)";
}

export function short(commit: string | undefined): string {
  return commit ? commit.slice(0, 7) : "–";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** `undefined`: not scheduled; only a change triggers it. */
export function untilText(at: number | undefined, now: number): string | undefined {
  if (at === undefined) return undefined;
  return at - now < 1_000 ? "now" : `in ${ageText(at - now)}`;
}

/** The drift in whole words. */
export function driftText(drift: string | undefined): string {
  return drift === undefined ? "not compared yet" : longDrift(drift);
}

/** The page's address of a deployment, `namespace/name`. */
export function addressOf(deployment: string): string {
  return `#/deployments/${deployment.split("/").map(encodeURIComponent).join("/")}`;
}

/** The page's address of a pull request. */
export function pullRequestAddressOf({ forge, repoName, number }: PagePullRequest["pullRequest"]): string {
  return `#/pull-requests/${[forge, ...repoName.split("/"), String(number)].map(encodeURIComponent).join("/")}`;
}

/** `branch main` or `tag v1`; other refs as they are. */
export function refText(ref: string | undefined): string {
  const [, kind, name] = /^refs\/(heads|tags)\/(.+)$/s.exec(ref ?? "") ?? [];
  return name === undefined ? (ref ?? "") : `${kind === "heads" ? "branch" : "tag"} ${name}`;
}

export function keyOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${name}`;
}
