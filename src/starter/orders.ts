/** The messages between the server and the starter process. */
import type { EndingSignal, WatchedEnd, WatchedSpec } from "../kluctl/watched.ts";
import { SourceError, type SourceProblem } from "../errors.ts";
import { type GitCall, GitFailure } from "../source/git.ts";

export interface StarterSettings {
  /** HOME for git. */
  readonly home: string;
  /** The server's environment, of which git gets a part. */
  readonly env: NodeJS.ProcessEnv;
}

/** Messages to the process; the settings come first. */
export type Order = StarterSettings | ({ readonly id: number } & OrderOf);

export type OrderOf = GitOrder | ProcessOrder | { readonly remove: string };

export type GitOrder =
  { readonly args: readonly string[]; readonly call: Omit<GitCall, "signal"> } | { readonly stop: true };

export type ProcessOrder =
  { readonly start: WatchedSpec } | { readonly beat: number } | { readonly kill: EndingSignal };

/** Messages from the process. */
export type StarterAnswer = { readonly id: number } & (
  | { readonly printed: string }
  | { readonly pid: number | undefined }
  | { readonly lines: readonly string[] }
  | { readonly ended: WatchedEnd }
  | { readonly removed: true }
  | { readonly failed: Failed }
);

/** An error reduced to what can be sent and to what callers make decisions on. */
export type Failed =
  | { readonly kind: "git"; readonly stderr: string; readonly stopped?: string | undefined }
  | { readonly kind: "source"; readonly problem: SourceProblem; readonly message: string }
  | {
      readonly kind: "other";
      readonly message: string;
      readonly code?: string | undefined;
      readonly syscall?: string | undefined;
    };

export function toFailed(error: unknown): Failed {
  if (error instanceof GitFailure) {
    const { stderr, cause } = error;
    return { kind: "git", stderr, stopped: cause instanceof Error ? cause.message : undefined };
  }
  if (error instanceof SourceError) return { kind: "source", problem: error.problem, message: error.message };
  const { message, code, syscall } = error as NodeJS.ErrnoException;
  return { kind: "other", message, code, syscall };
}

export function toError(failed: Failed): Error {
  switch (failed.kind) {
    case "git": {
      const { stderr, stopped } = failed;
      return new GitFailure(Buffer.from(stderr), stopped === undefined ? undefined : new Error(stopped));
    }
    case "source":
      return new SourceError(failed.problem, failed.message);
    case "other":
      return Object.assign(new Error(failed.message), {
        ...(failed.code !== undefined && { code: failed.code, syscall: failed.syscall }),
      });
  }
}
