/** What the commands of an episode share: what they act on, and their form. */
import type fc from "fast-check";
import type { Faults } from "../faults.ts";
import type { DeploymentPlan } from "../projects.ts";
import type { Repository } from "../repository.ts";
import type { Stage } from "../stage.ts";

/** The commands' own state, which no fault can change. */
export interface Model {
  readonly suspended: Set<string>;
  pushes: number;
}

export interface Real {
  readonly stage: Stage;
  readonly faults: Faults;
  readonly namespace: string;
  /** Deliveries that are sent later, by a command of their own. */
  readonly late: (() => Promise<unknown>)[];
  /** Actions that may not complete until the faults end. */
  readonly pending: Promise<void>[];
  /** The actions taken, in words, with their times. */
  readonly story: string[];
  readonly signal?: AbortSignal | undefined;
}

export type Command = fc.AsyncCommand<Model, Real>;

export const seconds = 1_000;

export function command(words: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    async run(model, real) {
      real.signal?.throwIfAborted();
      real.story.push(`${new Date().toISOString().slice(11, 23)} ${words}`);
      await run(model, real);
    },
    toString: () => words,
  };
}

export function planOf({ stage }: Real, index: number): DeploymentPlan {
  return stage.plan.deployments[index % stage.plan.deployments.length] as DeploymentPlan;
}

export function repositoryOf({ stage }: Real, name: string): Repository {
  return stage.repositories.get(name) as Repository;
}
