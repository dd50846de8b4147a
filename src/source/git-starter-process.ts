/** The process of git-starter.ts. It ends when nobody speaks to it any more, however that came about. */
import { constants, setPriority } from "node:os";
import process from "node:process";
import { SourceError } from "../errors.ts";
import { createGit, type Git, GitFailure } from "./git.ts";
import type { Failed, GitAnswer, GitOrder } from "./git-starter.ts";

/** What takes longer to end is left to end by itself. */
const endWithinMs = 3_000;

const running = new Map<number, AbortController>();
let git: Git | undefined;

// With all that it starts: the server has webhooks to answer, and leases to renew.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

process.on("message", (order: GitOrder) => {
  if ("home" in order) git = createGit(order);
  else if ("stop" in order) running.get(order.id)?.abort(new Error("it is not wanted any more"));
  else void answer(order);
});
// Signals for all of a terminal's processes are the server's business: it lets what runs come to its end.
process.on("SIGINT", () => undefined).on("SIGTERM", () => undefined);
process.once("disconnect", () => {
  for (const controller of running.values()) controller.abort(new Error("the server has ended"));
  endIfAlone();
  setTimeout(() => process.exit(), endWithinMs);
});

function endIfAlone(): void {
  if (!process.connected && running.size === 0) process.exit();
}

async function answer({ id, args, call }: Extract<GitOrder, { args: unknown }>): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  const came = await git!(args, { ...call, signal: controller.signal }).then(
    (printed): GitAnswer => ({ id, printed }),
    (error: unknown): GitAnswer => ({ id, failed: toFailed(error) }),
  );
  running.delete(id);
  if (process.connected) process.send?.(came, () => undefined);
  endIfAlone();
}

function toFailed(error: unknown): Failed {
  if (error instanceof GitFailure) {
    const { stderr, cause } = error;
    return { kind: "git", stderr, stopped: cause instanceof Error ? cause.message : undefined };
  }
  if (error instanceof SourceError) return { kind: "source", problem: error.problem, message: error.message };
  const { message, code, syscall } = error as NodeJS.ErrnoException;
  return { kind: "other", message, code, syscall };
}
