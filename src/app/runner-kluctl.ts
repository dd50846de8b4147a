/** kluctl, with the runs that are to be confined at a preview runner, and never in this process's pod. */
import { join, relative } from "node:path";
import { KilledError, KluctlUnavailableError, PrepareError, PreviewRefusedError } from "../errors.ts";
import type { Confine, ConfinedAccess } from "../kluctl/confine.ts";
import { endOf, type KluctlObserver, type KluctlProcesses, secretsOf, withReasons } from "../kluctl/kluctl.ts";
import { readOutcome } from "../kluctl/outcome.ts";
import { toPlainText } from "../kluctl/output.ts";
import { readCommandResult } from "../kluctl/result.ts";
import { createScrubber } from "../log.ts";
import type { CommandResult } from "../model.ts";
import type { DiffOptions, Run } from "../ports.ts";
import type { Dispatch } from "../preview-runner/dispatch.ts";
import { type Outcome, toTaskOptions, toTaskRun } from "../preview-runner/task.ts";
import { createWorkDirectories, removeDirectory } from "../work-directories.ts";
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

  async function diff(run: Run, options: DiffOptions, signal: AbortSignal): Promise<CommandResult> {
    const { slot } = run;
    if (slot === undefined) throw new Error("a confined run needs a slot");
    const access = await confine.open(run, slot, signal);
    const dir = await work.create().catch(async (error: unknown) => {
      await access.close();
      throw error;
    });
    const result = join(dir, "result.yaml");
    const scrub = createScrubber(secretsOf(run));
    const toWords = (text: string) => scrub(toPlainText(text));
    try {
      const task = {
        run: toTaskRun(run),
        options: toTaskOptions(options),
        projectDir: relative(slot, run.projectDir),
        kubeconfig: access.kubeconfig,
        env: { ...access.env },
        ports: [...access.ports],
      };
      const outcome = await dispatch.run({ task, slot, result, accept }, signal);
      throwFailure(outcome, toWords, access);
      const ended = { exitCode: 0, stdout: "", stderr: "" };
      const read = await readOutcome(ended, result, (file, size) => readCommandResult(file, size, signal), toWords);
      return { ...read, maskedValues: access.maskedValues?.() };
    } finally {
      await access.close();
      await removeDirectory(dir);
    }
  }

  /** Judged by what this very runner says, not by what one said some time ago. */
  function accept(report: Parameters<Parameters<Dispatch["run"]>[0]["accept"]>[0]): void {
    const refusal = refusalOf(toIsolation(isolation.mode, isolation.runner ?? "", report));
    if (refusal !== undefined) throw new PreviewRefusedError(refusal);
  }

  async function observed(run: Run, options: DiffOptions, signal: AbortSignal): Promise<CommandResult> {
    const startedAt = performance.now();
    let how: ReturnType<typeof endOf> = "failed";
    observe.started?.("diff");
    try {
      const result = await diff(run, options, signal);
      how = result.errors.length > 0 ? "errors" : "ok";
      return result;
    } catch (error) {
      how = endOf(error);
      throw error;
    } finally {
      observe.ran("diff", (performance.now() - startedAt) / 1_000, how, run.deployment);
    }
  }

  const here = <T>({ cold }: { readonly cold?: boolean | undefined }, call: () => Promise<T>): Promise<T> =>
    cold ? Promise.reject(new Error("the preview runner can only compare")) : call();
  return {
    ...kluctl,
    diff: (run, ...rest) => (run.cold ? observed(run, ...rest) : kluctl.diff(run, ...rest)),
    deploy: (run, ...rest) => here(run, () => kluctl.deploy(run, ...rest)),
    pokeImages: (run, ...rest) => here(run, () => kluctl.pokeImages(run, ...rest)),
    validate: (run, ...rest) => here(run, () => kluctl.validate(run, ...rest)),
    prune: (run, ...rest) => here(run, () => kluctl.prune(run, ...rest)),
    delete: (run, ...rest) => here(run, () => kluctl.delete(run, ...rest)),
  };
}

/** In the words of the runner's kluctl, as far as they may be read, and why it may have failed. */
function throwFailure(outcome: Outcome, toWords: (text: string) => string, access: ConfinedAccess): void {
  if (!("failed" in outcome)) return;
  const words = toWords(outcome.message);
  switch (outcome.failed) {
    case "prepare":
      throw withReasons(new PrepareError(words), access.refusals?.() ?? []);
    case "unavailable":
      throw new KluctlUnavailableError(`the preview runner cannot render: ${words}`);
    case "other":
      throw new Error(`the preview runner failed: ${words}`);
    default:
      throw new KilledError(outcome.failed, words);
  }
}
