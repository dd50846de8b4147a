/** The thread of git-thread.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { SourceError } from "../errors.ts";
import { createGit, GitFailure } from "./git.ts";
import type { Failed, GitAnswer, GitOrder, GitSettings } from "./git-thread.ts";

const git = createGit(workerData as GitSettings);
const running = new Map<number, AbortController>();

parentPort?.on("message", (order: GitOrder) => {
  if ("stop" in order) return running.get(order.id)?.abort(new Error("it is not wanted any more"));
  const { id, args, call } = order;
  const controller = new AbortController();
  running.set(id, controller);
  void git(args, { ...call, signal: controller.signal })
    .then(
      (printed): GitAnswer => ({ id, printed }),
      (error: unknown): GitAnswer => ({ id, failed: toFailed(error) }),
    )
    .then((answer) => {
      running.delete(id);
      parentPort?.postMessage(answer);
    });
});

function toFailed(error: unknown): Failed {
  if (error instanceof GitFailure) {
    const { stderr, cause } = error;
    return { kind: "git", stderr, stopped: cause instanceof Error ? cause.message : undefined };
  }
  if (error instanceof SourceError) return { kind: "source", problem: error.problem, message: error.message };
  const { message, code, syscall } = error as NodeJS.ErrnoException;
  return { kind: "other", message, code, syscall };
}
