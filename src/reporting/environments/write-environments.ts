/** Brings the environments of a git host in line with the deployments of a repository; writes only what differs. */
import { ForgeError } from "../../errors.ts";
import { createBoundedMap } from "../../kit/bounded-map.ts";
import { createTurns } from "../../kit/turns.ts";
import type { Logger } from "../../log.ts";
import type { CommitKey } from "../../model.ts";
import type { Forge, PostedDeployments, PostedSnapshot } from "../../ports.ts";
import type { Follower } from "../deploy-statuses.ts";
import { environmentProblems, type EnvironmentStep, nextSteps } from "./next-steps.ts";

export interface EnvironmentWriterDeps {
  readonly posted: PostedDeployments;
  /** Whether deployments are reported to this forge's environments. */
  readonly isEnabled: (forge: string) => boolean;
  /** The server's `statusName`. */
  readonly task: () => string;
  readonly log: Logger;
}

/** `followers`: returns all deployments that follow the repository, as they are when it is called. */
export type WriteEnvironments = (
  forge: Forge,
  commit: CommitKey,
  followers: () => readonly Follower[],
  signal?: AbortSignal,
) => Promise<void>;

/** An earlier deployment ends, the next one starts, and the one that was live is replaced. */
const mostRounds = 3;
/** Rounds in which another server stored something meanwhile. */
const mostConflicts = 5;
/** How long an environment that the host refuses is left alone. */
const restMs = 10 * 60_000;
const mostKept = 1_000;

/**
 * The returned function throws the forge's error if the forge needs time. A refusal is logged once, and does not affect other
 * reports: a login without the permission can still set statuses.
 */
export function createEnvironmentWriter({ posted, isEnabled, task, log }: EnvironmentWriterDeps): WriteEnvironments {
  const refused = createBoundedMap<true>({ entries: mostKept, maxAgeMs: restMs });
  const logged = createBoundedMap<true>({ entries: mostKept });
  /**
   * By repository. The jobs of several commits write to the same environments: what one of them decides from would be outdated by
   * the other's writes, on the host too.
   */
  const turns = createTurns();

  function warnOnce(about: CommitKey, problem: string, message: string): void {
    const key = `${about.forge}:${about.repoName} ${problem}`;
    if (logged.get(key) === undefined) log.warn({ ...about, error: problem }, message);
    logged.set(key, true);
  }

  /** Returns false if another server has written to the environment meanwhile. */
  async function take(
    forge: Forge,
    commit: CommitKey,
    step: EnvironmentStep,
    known: PostedSnapshot,
    signal?: AbortSignal,
  ): Promise<boolean> {
    try {
      const id = await forge.setDeployment?.({ ...commit, commit: step.commit }, step.deployment, step.id, signal);
      return await known.save(step.toRecord(id));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refused.set(restKey(commit, step), true);
      logRefusal(commit, error);
      return true;
    }
  }

  /** Once for each kind of refusal: a missing permission affects every environment. */
  function logRefusal(commit: CommitKey, error: ForgeError): void {
    const key = `${commit.forge}:${commit.repoName} ${error.problem}`;
    const about = { ...commit, error: error.message };
    if (logged.get(key) === undefined) log.warn(about, "forge rejected the deployment to an environment");
    else log.debug(about, "forge rejected the deployment to an environment");
    logged.set(key, true);
  }

  async function write(
    forge: Forge,
    commit: CommitKey,
    followers: () => readonly Follower[],
    signal?: AbortSignal,
  ): Promise<void> {
    const deployments = followers().map(({ deployment }) => deployment);
    for (const problem of environmentProblems(deployments, task())) {
      warnOnce(commit, problem, "ignored an annotation about the environment");
    }
    let conflicts = 0;
    for (let round = 0; round < mostRounds + conflicts; round++) {
      const known = await posted.of(commit);
      const input = { commit: commit.commit, followers: followers(), posted: known.all, task: task() };
      const steps = nextSteps(input).filter((step) => refused.get(restKey(commit, step)) === undefined);
      if (steps.length === 0) return;
      let isOutdated = false;
      for (const step of steps) if (!(await take(forge, commit, step, known, signal))) isOutdated = true;
      if (isOutdated && ++conflicts > mostConflicts) {
        throw new Error(`another server writes to the same environments of ${commit.repoName}`);
      }
    }
  }

  return async function writeEnvironments(forge, commit, followers, signal) {
    if (forge.setDeployment === undefined || !isEnabled(forge.id)) return;
    const repository = `${commit.forge}:${commit.repoName.toLowerCase()}`;
    await turns.run(repository, () => write(forge, commit, followers, signal), { signal });
  };
}

function restKey({ forge, repoName }: CommitKey, { deployment }: EnvironmentStep): string {
  return JSON.stringify([forge, repoName, deployment.environment]);
}

/** A person has to change something first. */
function isRefusal(error: unknown): error is ForgeError {
  return error instanceof ForgeError && error.problem !== "unreachable" && error.problem !== "rate-limited";
}
