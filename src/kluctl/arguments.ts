/** kluctl's command line. Pure. */
import type { DeployOptions, DiffOptions, LocalOverride, RenderOptions, Run } from "../ports.ts";

/** What is wanted of kluctl. */
export type Call =
  | { readonly command: "diff"; readonly options: DiffOptions }
  | { readonly command: "deploy"; readonly options: DeployOptions }
  | { readonly command: "poke-images"; readonly options: { readonly dryRun: boolean } }
  | { readonly command: "validate" }
  | { readonly command: "render"; readonly options: RenderOptions }
  | { readonly command: "prune" }
  | { readonly command: "delete"; readonly options: { readonly discriminator: string; readonly dryRun: boolean } };

/** Paths of what goes in and comes out, besides the command line. */
export interface CallFiles {
  readonly projectDir: string;
  readonly result: string;
  /** JSON, which kluctl reads as YAML. `-a` would expand `@file` and guess at types. */
  readonly args?: string | undefined;
  readonly images?: string | undefined;
  /** Takes the place of the project's `.kluctl.yaml`. */
  readonly projectConfig?: string | undefined;
  /** A target of that configuration, for a run without one. */
  readonly madeUpTarget?: string | undefined;
}

/** `name=value` in one argument, so that no value is ever taken for a flag. */
export function toArguments(call: Call, run: Omit<Run, "projectDir">, files: CallFiles): string[] {
  const { target = files.madeUpTarget, targetNameOverride, context } = run;
  return [
    call.command,
    "--no-update-check",
    "--no-color",
    // Said although it is kluctl's default, here and below: the server may have a configuration file of kluctl's controller.
    "--debug=false",
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
    // Short for --output-format, or for --output of validate. A render is printed.
    ...(call.command === "render" ? [] : ["-o", `yaml=${files.result}`]),
  ];
}

// Results are stored by us. kluctl would store them in the target cluster as the deployment's own identity, and let a
// deploy fail that only could not be stored.
const notStored = "--write-command-result=false";
// What was masked cannot be hashed; we mask what leaves.
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
        "--readiness-timeout=10m", // as kluctl's controller has it
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

/** kluctl looks at the single ones of a kind first, then at its groups. */
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
