/** What only deployments of kluctl have; deployment.ts has what they share with every other kind. */
import type { JsonObject } from "../kit/json.ts";
import type { ManualResults } from "./manual-request.ts";
import type { CredentialRef } from "./references.ts";
import type { CommandSummary, ValidateSummary } from "./result.ts";
import type { SourceOverride } from "./source-override.ts";

export interface HelmCredentialRef extends CredentialRef {
  /** The older form: the Secret itself names its Helm repository, by URL or by an id that charts refer to. */
  readonly bySecret?: boolean | undefined;
}

/** What kluctl is to do with the project. */
export interface KluctlSpec {
  readonly sourceOverrides: readonly SourceOverride[];
  readonly helmCredentials: readonly HelmCredentialRef[];
  readonly deployIntervalMs?: number | undefined;
  /** Only the legacy API can set `false`: changes in git are then deployed only by an interval or on request. */
  readonly deployOnChanges?: boolean | undefined;
  readonly validateIntervalMs?: number | undefined;
  readonly target?: string | undefined;
  readonly targetNameOverride?: string | undefined;
  readonly context?: string | undefined;
  readonly args?: JsonObject | undefined;
  readonly images: readonly JsonObject[];
  readonly dryRun: boolean;
  readonly noWait: boolean;
  readonly forceApply: boolean;
  readonly replaceOnError: boolean;
  readonly forceReplaceOnError: boolean;
  readonly abortOnError: boolean;
  readonly includeTags: readonly string[];
  readonly excludeTags: readonly string[];
  readonly includeDeploymentDirs: readonly string[];
  readonly excludeDeploymentDirs: readonly string[];
  readonly deployMode: "full-deploy" | "poke-images";
  readonly validate: boolean;
  readonly delete: boolean;
  readonly manual: boolean;
  readonly manualObjectsHash?: string | undefined;
}

export interface ProjectKey {
  readonly repoKey?: string | undefined;
  readonly subDir?: string | undefined;
}

export interface TargetKey {
  readonly targetName?: string | undefined;
  readonly clusterId: string;
  readonly discriminator?: string | undefined;
}

/** What kluctl's own tools read in the status, and what its commands need to go on from. */
export interface KluctlStatus extends ManualResults {
  readonly projectKey?: ProjectKey | undefined;
  readonly targetKey?: TargetKey | undefined;
  readonly lastManualObjectsHash?: string | undefined;
  readonly lastDiffResult?: CommandSummary | undefined;
  readonly lastValidateResult?: ValidateSummary | undefined;
}
