/** Measures and traces the stages of the work on a deployment. */
import type { CommandResult } from "../model.ts";
import { noTracing, type Tracing } from "../log/tracing.ts";
import { around } from "../kit/around.ts";
import type { Deployments, Kluctl, Objects, Results, Sources } from "../ports.ts";

export type MeasuredStage =
  "source" | "merge" | "diff" | "deploy" | "prune" | "validate" | "delete" | "status" | "result";

/** Runs one stage. `failed` tells whether its result counts as a failure although it did not throw. */
export type InStage = <T>(stage: MeasuredStage, work: () => Promise<T>, failed?: (value: T) => boolean) => Promise<T>;

export interface StageObserver {
  staged(stage: string, result: "ok" | "failed", seconds: number): void;
}

export function createInStage({ staged }: StageObserver, tracing: Tracing = noTracing): InStage {
  return async function inStage(stage, work, failed) {
    const from = performance.now();
    let ok = false;
    try {
      const value = await tracing.inSpan(stage, {}, work, (came) => ({ failed: failed?.(came) ?? false }));
      ok = !failed?.(value);
      return value;
    } finally {
      staged(stage, ok ? "ok" : "failed", (performance.now() - from) / 1_000);
    }
  };
}

const hasErrors = ({ errors }: Pick<CommandResult, "errors">) => errors.length > 0;

export function stagedSources<S extends Sources>(sources: S, inStage: InStage): S {
  return around<Sources, S>(sources, {
    checkout: (next, ...asked) => inStage("source", () => next(...asked)),
    merge: (next, ...asked) => inStage("merge", () => next(...asked)),
  });
}

export function stagedKluctl<K extends Kluctl>(kluctl: K, inStage: InStage): K {
  return around<Kluctl, K>(kluctl, {
    diff: (next, ...asked) => inStage("diff", () => next(...asked), hasErrors),
    deploy: (next, ...asked) => inStage("deploy", () => next(...asked), hasErrors),
    pokeImages: (next, ...asked) => inStage("deploy", () => next(...asked), hasErrors),
    render: (next, ...asked) => inStage("diff", () => next(...asked)),
    validate: (next, ...asked) => inStage("validate", () => next(...asked), hasErrors),
    delete: (next, ...asked) => inStage("delete", () => next(...asked), hasErrors),
  });
}

export function stagedObjects(objects: Objects, inStage: InStage): Objects {
  const failed = (errors: readonly unknown[]) => errors.length > 0;
  return around<Objects>(objects, { delete: (next, ...asked) => inStage("prune", () => next(...asked), failed) });
}

export function stagedResults<R extends Results>(results: R, inStage: InStage): R {
  return around<Results, R>(results, {
    storeCommand: (next, ...asked) => inStage("result", () => next(...asked)),
    storeValidate: (next, ...asked) => inStage("result", () => next(...asked)),
  });
}

export function stagedStatus<D extends Pick<Deployments, "patchStatus">>(deployments: D, inStage: InStage): D {
  return around<Pick<Deployments, "patchStatus">, D>(deployments, {
    patchStatus: (next, ...asked) => inStage("status", () => next(...asked)),
  });
}
