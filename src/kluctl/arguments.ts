/** Builds kluctl's command line. Pure. */
import type { DeployOptions, DiffOptions, LocalOverride, RenderOptions, Run } from "../model.ts";

/** The command to run and its options. */
export type Call =
  | { readonly command: "diff"; readonly options: DiffOptions }
  | { readonly command: "deploy"; readonly options: DeployOptions }
  | { readonly command: "poke-images"; readonly options: { readonly dryRun: boolean } }
  | { readonly command: "validate" }
  | { readonly command: "render"; readonly options: RenderOptions }
  | { readonly command: "prune" }
  | { readonly command: "delete"; readonly options: { readonly discriminator: string; readonly dryRun: boolean } };

/** Paths of the input and output files. */
export interface CallFiles {
  readonly projectDir: string;
  readonly result: string;
  /** JSON, which kluctl reads as YAML. `-a` would expand `@file` and guess types. */
  readonly args?: string | undefined;
  readonly images?: string | undefined;
  /** Replaces the project's `.kluctl.yaml`. */
  readonly projectConfig?: string | undefined;
  /** A target of `projectConfig`, for a run without a target. */
  readonly madeUpTarget?: string | undefined;
}

/** Passes `name=value` as one argument, so that a value is never mistaken for a flag. */
export function toArguments(call: Call, run: Omit<Run, "projectDir">, files: CallFiles): string[] {
  const { target = files.madeUpTarget, targetNameOverride, context } = run;
  return [
    call.command,
    "--no-update-check",
    "--no-color",
    // Defaults are set explicitly, here and below, because the server may have a configuration file of kluctl's
    // controller.
    "--debug=false",
    // An include that was pushed is there with the next run, and not when the cache is old.
    "--git-cache-update-interval=0s",
    `--project-dir=${files.projectDir}`,
    `--timeout=${Math.max(1, Math.ceil(run.timeoutMs))}ms`,
    ...flag("project-config", files.projectConfig),
    `--context=${context ?? ""}`,
    ...flag("target", target),
    ...flag("target-name-override", targetNameOverride),
    ...flag("args-from-file", files.args),
    ...flag("fixed-images-file", files.images),
    ...run.includeTags.map((tag) => `--include-tag=${tag}`),
    ...run.excludeTags.map((tag) => `--exclude-tag=${tag}`),
    ...run.includeDeploymentDirs.map((dir) => `--include-deployment-dir=${dir}`),
    ...run.excludeDeploymentDirs.map((dir) => `--exclude-deployment-dir=${dir}`),
    ...(run.localOverrides ?? []).map(toOverride),
    ...toOptions(call),
    // Short for --output-format, or for --output of validate. `render` prints its result instead.
    ...(call.command === "render" ? [] : ["-o", `yaml=${files.result}`]),
  ];
}

// We store results ourselves. kluctl would store them in the target cluster with the deployment's own identity, and a
// deploy would fail if only that write failed.
const notStored = "--write-command-result=false";
// Masked values cannot be hashed; we mask secrets before a result leaves the server.
const whole = "--no-obfuscate";

function toOptions(call: Call): string[] {
  switch (call.command) {
    case "diff":
      return [whole, ...applyOptions(call.options)];
    case "deploy": {
      const { dryRun, noWait, abortOnError } = call.options;
      return [
        whole,
        notStored,
        "--yes",
        "--readiness-timeout=10m", // the value that kluctl's controller uses
        ...applyOptions(call.options),
        `--dry-run=${dryRun}`,
        ...when(noWait, "--no-wait"),
        ...when(abortOnError, "--abort-on-error"),
      ];
    }
    case "poke-images":
      return [whole, notStored, "--yes", `--dry-run=${call.options.dryRun}`];
    case "validate":
      return [];
    case "render":
      return ["--offline-kubernetes", "--print-all", ...flag("kubernetes-version", call.options.kubernetesVersion)];
    case "prune":
      return [whole, notStored, "--yes", "--dry-run"];
    case "delete": {
      const { discriminator, dryRun } = call.options;
      return [whole, notStored, "--yes", "--no-wait", `--discriminator=${discriminator}`, `--dry-run=${dryRun}`];
    }
  }
}

/** kluctl applies overrides of single repositories first, then those of groups. */
function toOverride({ repoKey: { type, host, path: repo }, isGroup, path }: LocalOverride): string {
  return `--local-${type}${isGroup ? "-group" : ""}-override=${host}/${repo}=${path}`;
}

function applyOptions({ forceApply, replaceOnError, forceReplaceOnError }: DiffOptions): string[] {
  return [
    ...when(forceApply, "--force-apply"),
    ...when(replaceOnError, "--replace-on-error"),
    ...when(forceReplaceOnError, "--force-replace-on-error"),
  ];
}

function when(condition: boolean, name: string): string[] {
  return condition ? [name] : [];
}

function flag(name: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`--${name}=${value}`];
}
