/** Builders for the input of the decisions. */
import type {
  CommandResult,
  CommandSummary,
  GitDeployment,
  GitSource,
  DeploymentStatus,
  ResultObject,
  ValidateSummary,
} from "../../src/model.ts";
import { repoId } from "../../src/model/repo-url.ts";

type GitSpec = GitDeployment["spec"];

interface SpecOverrides extends Partial<Omit<GitSpec, "source">> {
  source?: Omit<GitSource, "kind">;
}

export function aSpec({ source, ...overrides }: SpecOverrides = {}): GitSpec {
  return {
    source: { kind: "git", url: "https://git.example.com/org/shop", ref: { branch: "main" }, path: "", ...source },
    sourceOverrides: [],
    gitCredentials: [],
    ociCredentials: [],
    helmCredentials: [],
    intervalMs: 300_000,
    suspend: false,
    images: [],
    dryRun: false,
    noWait: false,
    forceApply: false,
    replaceOnError: false,
    forceReplaceOnError: false,
    abortOnError: false,
    includeTags: [],
    excludeTags: [],
    includeDeploymentDirs: [],
    excludeDeploymentDirs: [],
    deployMode: "full-deploy",
    validate: false,
    prune: false,
    delete: false,
    manual: false,
    ...overrides,
  };
}

export function aStatus(overrides: Partial<DeploymentStatus> = {}): DeploymentStatus {
  return { conditions: [], ...overrides };
}

interface Overrides extends Partial<Omit<GitDeployment, "spec" | "status">> {
  spec?: SpecOverrides;
  status?: Partial<DeploymentStatus>;
}

export function aDeployment({ spec, status, ...overrides }: Overrides = {}): GitDeployment {
  const whole = aSpec(spec);
  return {
    key: { namespace: "shop", name: "prod" },
    uid: "uid-prod",
    generation: 1,
    resourceVersion: "1",
    annotations: {},
    finalizers: ["finalizers.gitops.kluctl.io"],
    spec: whole,
    status: aStatus(status),
    repo: repoId(whole.source.url)!,
    ...overrides,
  };
}

export function aSummary(overrides: Partial<CommandSummary> = {}): CommandSummary {
  return {
    document: {},
    id: "result-0",
    endTime: "2026-01-01T00:00:00Z",
    errors: 0,
    warnings: 0,
    newObjects: 0,
    changedObjects: 0,
    appliedHookObjects: 0,
    deletedObjects: 0,
    orphanObjects: 0,
    ...overrides,
  };
}

export function aValidation(overrides: Partial<ValidateSummary> = {}): ValidateSummary {
  return { document: {}, id: "validate-0", endTime: "2026-01-01T00:00:00Z", errors: 0, warnings: 0, ...overrides };
}

export function anObject(overrides: Partial<ResultObject> = {}): ResultObject {
  return {
    ref: { version: "v1", kind: "ConfigMap", name: "settings", namespace: "shop" },
    changes: [],
    new: false,
    orphan: false,
    deleted: false,
    hook: false,
    ...overrides,
  };
}

export function aResult(overrides: Partial<CommandResult> = {}): CommandResult {
  return {
    document: {
      id: "from-kluctl",
      target: { name: "prod", discriminator: "shop-prod" },
      targetKey: { targetName: "prod", clusterId: "cluster-1", discriminator: "shop-prod" },
      command: { initiator: "CommandLine", startTime: "2026-01-01T00:00:00Z", endTime: "2026-01-01T00:00:01Z" },
      gitInfo: { url: "https://git.example.com/org/shop", ref: null, subDir: "", commit: "c1", dirty: false },
      clusterInfo: { clusterId: "cluster-1" },
    },
    objects: [],
    errors: [],
    warnings: [],
    objectsHash: "hash-1",
    ...overrides,
  };
}
