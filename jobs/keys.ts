/** What our keys in Redis are made of. */
import { createHash } from "node:crypto";
import { type PullRequestKey, pullRequestText } from "../src/model.ts";

/** For names of any length, from outside. */
export function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

/** Git hosts do not mind the case of a repository's name, and spell it variously. */
export function pullRequestId(key: PullRequestKey): string {
  return pullRequestText(key).toLowerCase();
}
