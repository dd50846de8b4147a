/** Measures and traces the stages of the work on a deployment. */
import type { CommandResult } from "../model.ts";
import { noTracing, type Tracing } from "../log/tracing.ts";
import type { Kluctl, Objects, Results, Sources } from "../ports.ts";

export type Stage = "source" | "merge" | "diff" | "deploy" | "prune" | "validate" | "delete" | "status" | "result";

/** Runs one stage. `failed` tells whether its result counts as a failure although it did not throw. */
export type InStage = <T>(stage: Stage, work: () => Promise<T>, failed?: (value: T) => boolean) => Promise<T>;

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
  return {
    ...sources,
    checkout: (...asked) => inStage("source", () => sources.checkout(...asked)),
    merge: (...asked) => inStage("merge", () => sources.merge(...asked)),
  };
}

export function stagedKluctl<K extends Kluctl>(kluctl: K, inStage: InStage): K {
  return {
    ...kluctl,
    diff: (...asked) => inStage("diff", () => kluctl.diff(...asked), hasErrors),
    deploy: (...asked) => inStage("deploy", () => kluctl.deploy(...asked), hasErrors),
    pokeImages: (...asked) => inStage("deploy", () => kluctl.pokeImages(...asked), hasErrors),
    render: (...asked) => inStage("diff", () => kluctl.render(...asked)),
    validate: (...asked) => inStage("validate", () => kluctl.validate(...asked), hasErrors),
    delete: (...asked) => inStage("delete", () => kluctl.delete(...asked), hasErrors),
  };
}

export function stagedObjects(objects: Objects, inStage: InStage): Objects {
  return {
    delete: (...asked) =>
      inStage(
        "prune",
        () => objects.delete(...asked),
        (errors) => errors.length > 0,
      ),
  };
}

export function stagedResults<R extends Results>(results: R, inStage: InStage): R {
  return {
    ...results,
    storeCommand: (...asked) => inStage("result", () => results.storeCommand(...asked)),
    storeValidate: (...asked) => inStage("result", () => results.storeValidate(...asked)),
  };
}

export function stagedStatus<D extends { patchStatus(...asked: never[]): Promise<void> }>(
  deployments: D,
  inStage: InStage,
): D {
  return {
    ...deployments,
    patchStatus: (...asked: never[]) => inStage("status", () => deployments.patchStatus(...asked)),
  };
}
