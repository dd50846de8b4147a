/** Builds the keys in Redis. */
import { hash } from "node:crypto";
import { type PullRequestKey, pullRequestText, type RepoId } from "../model.ts";

/** Shortens names of any length from external sources. */
export function digest(text: string): string {
  return hash("sha256", text).slice(0, 32);
}

/** Git hosts ignore the letter case of repository names and spell them inconsistently. */
export function pullRequestId(key: PullRequestKey): string {
  return pullRequestText(key).toLowerCase();
}

/** The causes requested since the last job started (`asked`), and those of that job (`taken`). */
export function causesKey(prefix: string, subject: string, state: "asked" | "taken"): string {
  return `${prefix}:causes:${state}:${subject}`;
}

/** The key of the repository's last known move. */
export function movedKey(prefix: string, repo: RepoId): string {
  return `${prefix}:moved:${digest(repo)}`;
}
