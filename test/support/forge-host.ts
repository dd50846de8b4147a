/** What the conformance suite needs of a git host, real or simulated, including the actions of its users. */
import type { CommitStatus } from "../../src/model.ts";
import type { Forge } from "../../src/ports.ts";

export interface ForgeHost {
  /** Base URL of its API, as it is configured. */
  readonly apiUrl: string;
  /** Returns the forge under test with its intended login, or with another address, token or timeout. */
  connect(options?: Connection): Promise<Forge> | Forge;
  /** Values that no error may contain: tokens, keys. */
  readonly secrets: readonly string[];
  /**
   * A repository of this test with the branches `main` and `release`; its name has capital letters, dots and dashes.
   */
  readonly repoName: string;
  /** A URL by which a deployment may refer to it. */
  readonly repoUrl: string;

  /** Creates a branch with one commit and opens a pull request into `main`. */
  openPullRequest(options?: { fork?: boolean; draft?: boolean }): Promise<OpenedPullRequest>;
  /** Pushes one more commit to the pull request's branch; returns its id. */
  push(number: number): Promise<string>;
  retarget(number: number, branch: "release"): Promise<void>;
  setDraft(number: number, draft: boolean): Promise<void>;
  close(number: number): Promise<void>;
  merge(number: number): Promise<void>;
  /** Another user writes comments, one after the other. */
  somebodyComments(number: number, bodies: readonly string[]): Promise<void>;
  /** All comments as another user sees them, oldest first, without the host's own notes. */
  comments(number: number): Promise<readonly SeenComment[]>;
  /** The current statuses of a commit: the newest of each context. */
  statuses(commit: string): Promise<readonly SeenStatus[]>;
}

export interface Connection {
  readonly apiUrl?: string;
  readonly token?: string;
  readonly timeoutMs?: number;
}

export interface OpenedPullRequest {
  readonly number: number;
  readonly head: string;
}

export interface SeenComment {
  readonly byForge: boolean;
  readonly body: string;
}

export interface SeenStatus {
  readonly context: string;
  /** In the port's terms; any final state that is neither success nor failure counts as `canceled`. */
  readonly state: CommitStatus["state"];
  readonly description: string;
  readonly url?: string | undefined;
}
