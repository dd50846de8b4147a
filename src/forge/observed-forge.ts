/** Wraps a forge to report each request with its result and duration. */
import { ForgeError, type ForgeProblem } from "../errors.ts";
import type { Forge } from "../ports.ts";

export type ForgeOperation = Exclude<keyof Forge, "id" | "kind" | "maxCommentLength" | "repoName">;
export type ForgeResult = "ok" | "aborted" | "error" | ForgeProblem;

export function createObservedForge(
  forge: Forge,
  asked: (operation: ForgeOperation, result: ForgeResult, seconds: number) => void,
): Forge {
  async function ask<T>(operation: ForgeOperation, question: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const from = performance.now();
    let result: ForgeResult = "ok";
    try {
      return await question();
    } catch (error) {
      result = error instanceof ForgeError ? error.problem : signal?.aborted ? "aborted" : "error";
      throw error;
    } finally {
      asked(operation, result, (performance.now() - from) / 1_000);
    }
  }

  return {
    id: forge.id,
    kind: forge.kind,
    maxCommentLength: forge.maxCommentLength,
    repoName: (repo) => forge.repoName(repo),
    pullRequest: (key, signal) => ask("pullRequest", () => forge.pullRequest(key, signal), signal),
    openPullRequests: (name, signal) => ask("openPullRequests", () => forge.openPullRequests(name, signal), signal),
    closedPullRequests: (name, since, signal) =>
      ask("closedPullRequests", () => forge.closedPullRequests(name, since, signal), signal),
    ownComments: (key, signal) => ask("ownComments", () => forge.ownComments(key, signal), signal),
    createComment: (key, body, signal) => ask("createComment", () => forge.createComment(key, body, signal), signal),
    updateComment: (key, id, body, signal) =>
      ask("updateComment", () => forge.updateComment(key, id, body, signal), signal),
    deleteComment: (key, id, signal) => ask("deleteComment", () => forge.deleteComment(key, id, signal), signal),
    setStatus: (commit, status, signal) => ask("setStatus", () => forge.setStatus(commit, status, signal), signal),
  };
}
