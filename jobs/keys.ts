/** What our keys in Redis are made of. */
import { hash } from "node:crypto";
import { type PullRequestKey, pullRequestText, type RepoId } from "../src/model.ts";

/** For names of any length, from outside. */
export function digest(text: string): string {
  return hash("sha256", text).slice(0, 32);
}

/** Git hosts do not mind the case of a repository's name, and spell it variously. */
export function pullRequestId(key: PullRequestKey): string {
  return pullRequestText(key).toLowerCase();
}

/** Why a deployment was asked for since its last job began (`asked`), and why that job runs (`taken`). */
export function causesKey(prefix: string, subject: string, state: "asked" | "taken"): string {
  return `${prefix}:causes:${state}:${subject}`;
}

/** Where the repository's last known move is. */
export function movedKey(prefix: string, repo: RepoId): string {
  return `${prefix}:moved:${digest(repo)}`;
}
