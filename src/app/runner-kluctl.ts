/** A kluctl that sends confined runs to a preview runner and never runs them in this process's pod. */
import { join, relative } from "node:path";
import { KilledError, KluctlUnavailableError, PrepareError, PreviewRefusedError } from "../errors.ts";
import type { Confine, ConfinedAccess } from "../kluctl/confine.ts";
import { withReasons } from "../kluctl/explain-jail.ts";
import { endOf, type KluctlObserver, type KluctlProcesses, secretsOf } from "../kluctl/kluctl.ts";
import { explainOffline, noAccess, notIsolated, readRender } from "../kluctl/offline.ts";
import { readOutcome } from "../kluctl/outcome.ts";
import { toPlainText } from "../kluctl/output.ts";
import { readCommandResult, type ReadResult } from "../kluctl/result.ts";
import { around } from "../kit/around.ts";
import { createScrubber } from "../log.ts";
import type { CommandResult, Run } from "../model.ts";
import type { Kluctl } from "../ports.ts";
import type { Assignment, Dispatch } from "../preview-runner/dispatch.ts";
import {
  type TaskOutcome,
  type RunnerReport,
  type Task,
  toDiffCall,
  toOfflineRun,
  toRenderCall,
  toTaskOverrides,
  toTaskRun,
} from "../preview-runner/task.ts";
import { createWorkDirectories, removeDirectory } from "../kit/work-directories.ts";
import { type Isolation, refusalOf, toIsolation } from "./isolation.ts";

export interface RunnerKluctlDeps {
  readonly kluctl: KluctlProcesses;
  readonly dispatch: Dispatch;
  readonly isolation: Isolation;
  readonly confine: Confine;
  readonly workDir: string;
  readonly observe: Pick<KluctlObserver, "started" | "ran">;
}

export function withRunner({
  kluctl,
  dispatch,
  isolation,
  confine,
  workDir,
  observe,
}: RunnerKluctlDeps): KluctlProcesses {
  const work = createWorkDirectories(workDir);

  /** A run, and how its result is read. */
  interface Sent {
    readonly command: Task["call"]["command"];
    readonly open: (slot: string) => Promise<ConfinedAccess>;
    readonly toTask: (access: ConfinedAccess) => Pick<Task, "call" | "run">;
    readonly accept: Assignment["accept"];
    readonly read: ReadResult<CommandResult>;
    readonly explain: (error: PrepareError, access: ConfinedAccess) => PrepareError;
  }

  async function send(run: Run, sent: Sent, signal: AbortSignal): Promise<CommandResult> {
    const { slot } = run;
    if (slot === undefined) throw new Error("a confined run needs a slot");
    const access = await sent.open(slot);
    const dir = await work.create().catch(async (error: unknown) => {
      await access.close();
      throw error;
    });
    const result = join(dir, "result.yaml");
    const scrub = createScrubber(secretsOf(run));
    const toWords = (text: string) => scrub(toPlainText(text));
    try {
      const { overrides, others } = toTaskOverrides(run.localOverrides ?? []);
      const task = { ...sent.toTask(access), projectDir: relative(slot, run.projectDir), overrides };
      const outcome = await dispatch.run({ task, slot, others, result, accept: sent.accept }, signal);
      throwFailure(outcome, toWords, (error) => sent.explain(error, access));
      const ended = { exitCode: 0, stdout: "", stderr: "" };
      const read = await readOutcome(ended, result, (file, size) => sent.read(file, size, signal), toWords);
      return { ...read, maskedValues: access.maskedValues?.() };
    } finally {
      await access.close();
      await removeDirectory(dir);
    }
  }

  /** Evaluates the report of the runner that gets this run, because earlier reports may be from another one. */
  const judged = (report: RunnerReport) => toIsolation(isolation.mode, isolation.runner ?? "", report);

  const diff: KluctlProcesses["diff"] = (run, options, signal) => {
    const sent: Sent = {
      command: "diff",
      open: (slot) => confine.open(run, slot, signal),
      toTask: (access) => ({ run: toTaskRun(run), call: toDiffCall(options, access) }),
      accept(report) {
        const refusal = refusalOf(judged(report));
        if (refusal !== undefined) throw new PreviewRefusedError(refusal);
      },
      read: readCommandResult,
      explain: (error, access) => withReasons(error, access.refusals?.() ?? []),
    };
    return observed(run, sent, signal);
  };

  const render: KluctlProcesses["render"] = (run, options, signal) => {
    const sent: Sent = {
      command: "render",
      open: () => Promise.resolve(noAccess),
      toTask: () => ({ run: toOfflineRun(run), call: toRenderCall(options) }),
      accept(report) {
        if (Object.keys(judged(report).missing).length > 0) throw new PreviewRefusedError(notIsolated);
      },
      read: readRender,
      explain: explainOffline,
    };
    return observed(run, sent, signal);
  };

  async function observed(run: Run, sent: Sent, signal: AbortSignal): Promise<CommandResult> {
    const { command } = sent;
    const startedAt = performance.now();
    let how: ReturnType<typeof endOf> = "failed";
    observe.started?.(command);
    try {
      const result = await send(run, sent, signal);
      how = result.errors.length > 0 ? "errors" : "ok";
      return result;
    } catch (error) {
      how = endOf(error);
      throw error;
    } finally {
      observe.ran(command, (performance.now() - startedAt) / 1_000, how, run.deployment);
    }
  }

  const here = <T>({ cold }: { readonly cold?: boolean | undefined }, call: () => Promise<T>): Promise<T> =>
    cold ? Promise.reject(new Error("a preview runner only compares and renders")) : call();
  return around<Kluctl, typeof kluctl>(kluctl, {
    diff: (next, run, ...rest) => (run.cold ? diff(run, ...rest) : next(run, ...rest)),
    render: (_next, ...asked) => render(...asked),
    deploy: (next, run, ...rest) => here(run, () => next(run, ...rest)),
    pokeImages: (next, run, ...rest) => here(run, () => next(run, ...rest)),
    validate: (next, run, ...rest) => here(run, () => next(run, ...rest)),
    prune: (next, run, ...rest) => here(run, () => next(run, ...rest)),
    delete: (next, run, ...rest) => here(run, () => next(run, ...rest)),
  });
}

/** Throws the error of the runner's kluctl, redacted, with possible reasons. */
function throwFailure(
  outcome: TaskOutcome,
  toWords: (text: string) => string,
  explain: (error: PrepareError) => PrepareError,
): void {
  if (!("failed" in outcome)) return;
  const words = toWords(outcome.message);
  switch (outcome.failed) {
    case "prepare":
      throw explain(new PrepareError(words));
    case "unavailable":
      throw new KluctlUnavailableError(`the preview runner cannot render: ${words}`);
    case "other":
      throw new Error(`the preview runner failed: ${words}`);
    default:
      throw new KilledError(outcome.failed, words);
  }
}
