/** Derives a project's inputs from kluctl's result. Pure. Anything unknown here is a reason to check. */
import type { GitRef } from "./source.ts";

/** A ref of another repository. */
export interface GitPlace {
  readonly url: string;
  readonly ref: GitRef;
}

export interface KnownInputs {
  /** Projects and variables in other repositories. */
  readonly includes: readonly GitPlace[];
  /** The project contains Helm charts. */
  readonly charts: boolean;
  /** Some rendered path goes through a parent directory. */
  readonly leadsOutside: boolean;
  readonly reason?: undefined;
}

export type Inputs = KnownInputs | { readonly reason: string };

const harmlessOfProject = new Set([
  "commonAnnotations",
  "commonLabels",
  "conflictResolution",
  "deployments",
  "ignoreForDiff",
  "overrideNamespace",
  "tags",
  "vars",
  "when",
]);
const harmlessOfItem = new Set([
  "alwaysDeploy",
  "args",
  "barrier",
  "git",
  "include",
  "message",
  "onlyRender",
  "passVars",
  "path",
  "recursive",
  "renderedHelmChartConfig",
  "renderedInclude",
  "renderedObjects",
  "skipDeleteIfTags",
  "tags",
  "vars",
  "waitReadiness",
  "waitReadinessObjects",
  "when",
]);
const harmlessOfVars = new Set([
  "file",
  "git",
  "gitFiles",
  "ignoreMissing",
  "multidoc",
  "noOverride",
  "renderedSensitive",
  "renderedVars",
  "sensitive",
  "targetPath",
  "values",
  "when",
]);
const harmlessOfChart = new Set([
  "chartName",
  "chartVersion",
  "credentialsId",
  "namespace",
  "output",
  "path",
  "releaseName",
  "repo",
  "skipCRDs",
  "skipUpdate",
  "updateConstraints",
]);

type Fields = Readonly<Record<string, unknown>>;

class CheckReason extends Error {}

export function inputsOf(document: Fields): Inputs {
  const includes = new Map<string, GitPlace>();
  let charts = false;
  let leadsOutside = false;

  function notePath(path: unknown): void {
    leadsOutside ||= typeof path === "string" && path.split("/").includes("..");
  }

  function addPlace(value: unknown, what: string): void {
    const { url, ref } = fieldsOf(value, what);
    if (typeof url !== "string") throw new CheckReason(`${what} does not name a repository`);
    const place = { url, ref: refOf(ref, what) };
    includes.set(JSON.stringify(place), place);
  }

  function walkVars(value: unknown): void {
    for (const source of listOf(value, "vars")) {
      const fields = fieldsOf(source, "vars");
      refuseOthers(fields, harmlessOfVars, "variables come from");
      notePath(fields["file"]);
      if (isThere(fields["git"])) addPlace(fields["git"], "vars.git");
      if (isThere(fields["gitFiles"])) addPlace(fields["gitFiles"], "vars.gitFiles");
    }
  }

  function walkChart(value: unknown): void {
    const { helmChart, ...rest } = fieldsOf(value, "renderedHelmChartConfig");
    refuseOthers(rest, new Set(), "a Helm chart has");
    const chart = fieldsOf(helmChart, "helmChart");
    // A chart that is pulled during rendering is not in the project, so it has not been searched.
    refuseOthers(chart, harmlessOfChart, "a Helm chart has");
    charts = true;
    notePath(chart["path"]);
  }

  function walk(project: Fields): void {
    refuseOthers(project, harmlessOfProject, "the project has");
    walkVars(project["vars"]);
    for (const value of listOf(project["deployments"], "deployments")) {
      const item = fieldsOf(value, "deployments");
      refuseOthers(item, harmlessOfItem, "an item of the project has");
      walkVars(item["vars"]);
      notePath(item["path"]);
      notePath(item["include"]);
      if (isThere(item["git"])) addPlace(item["git"], "deployments.git");
      if (isThere(item["renderedHelmChartConfig"])) walkChart(item["renderedHelmChartConfig"]);
      if (isThere(item["renderedInclude"])) walk(fieldsOf(item["renderedInclude"], "renderedInclude"));
    }
  }

  try {
    walk(fieldsOf(document["deployment"], "deployment"));
    return { includes: [...includes.values()], charts, leadsOutside };
  } catch (error) {
    if (error instanceof CheckReason) return { reason: error.message };
    throw error;
  }
}

/** Whether an item of the project makes a deploy wait until it is ready. */
export function waitsForItems({ deployment }: Fields): boolean {
  const found = (value: unknown): boolean => {
    if (typeof value !== "object" || value === null) return false;
    if (Array.isArray(value)) return value.some(found);
    return Object.entries(value).some(([name, one]) => (waitFields.has(name) && isThere(one)) || found(one));
  };
  return found(deployment);
}

const waitFields = new Set(["waitReadiness", "waitReadinessObjects"]);

function refOf(value: unknown, what: string): GitRef {
  if (!isThere(value)) return {};
  if (typeof value === "string") {
    const [, kind, name] = /^refs\/(heads|tags)\/(.+)$/.exec(value) ?? [];
    if (name === undefined) throw new CheckReason(`${what} has a ref that may be a branch or a tag`);
    return kind === "heads" ? { branch: name } : { tag: name };
  }
  const { branch, tag, commit, ...rest } = fieldsOf(value, `${what}.ref`);
  refuseOthers(rest, new Set(), `${what}.ref has`);
  const [ref] = [{ branch }, { tag }, { commit }].filter((one) => Object.values(one).some(isThere));
  return (ref ?? {}) as GitRef;
}

function refuseOthers(fields: Fields, harmless: ReadonlySet<string>, what: string): void {
  const other = Object.keys(fields).find((name) => isThere(fields[name]) && !harmless.has(name));
  if (other !== undefined) throw new CheckReason(`${what} ${other}`);
}

function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new CheckReason(`the result does not contain ${what}`);
}

function listOf(value: unknown, what: string): readonly unknown[] {
  if (!isThere(value)) return [];
  if (Array.isArray(value)) return value;
  throw new CheckReason(`the result does not contain ${what}`);
}

/** Go may or may not omit empty values. */
function isThere(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "" && value !== false;
}
