/** What the conformance suite needs of a git host, real or played: people who do what people do there. */
import type { CommitStatus } from "../../src/model.ts";
import type { Forge } from "../../src/ports.ts";

export interface ForgeHost {
  /** Base URL of its API, as it is configured. */
  readonly apiUrl: string;
  /** The forge under test with the login that it is meant to have, or with another address, token or patience. */
  connect(options?: Connection): Promise<Forge> | Forge;
  /** Values that no error may hold: tokens, keys. */
  readonly secrets: readonly string[];
  /** A repository of this test with the branches `main` and `release`; capital letters, dots and dashes in its name. */
  readonly repoName: string;
  /** A URL that a deployment may name it by. */
  readonly repoUrl: string;

  /** A new branch with one commit, proposed for `main`. */
  openPullRequest(options?: { fork?: boolean; draft?: boolean }): Promise<OpenedPullRequest>;
  /** One more commit on the pull request's branch; its id. */
  push(number: number): Promise<string>;
  retarget(number: number, branch: "release"): Promise<void>;
  setDraft(number: number, draft: boolean): Promise<void>;
  close(number: number): Promise<void>;
  merge(number: number): Promise<void>;
  /** Somebody else writes comments, one after the other. */
  somebodyComments(number: number, bodies: readonly string[]): Promise<void>;
  /** All comments as somebody else reads them, oldest first; not what the host itself notes. */
  comments(number: number): Promise<readonly SeenComment[]>;
  /** What is shown beside a commit now: the newest of each context. */
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
  /** In the port's words; any final state that is neither success nor failure counts as `canceled`. */
  readonly state: CommitStatus["state"];
  readonly description: string;
  readonly url?: string | undefined;
}
