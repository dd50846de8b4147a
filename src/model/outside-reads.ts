/**
 * The files and directories outside of its directory that a project may read. Recorded in an annotation of the deployment,
 * so that every server knows from its watch which deployments a push concerns. Pure.
 */
import { fieldsOf, type JsonObject, listOf } from "../kit/json.ts";
import { annotation, type AnyDeployment } from "./deployment.ts";

/** `undefined`: unknown, so that it may be any file of the repository. Relative to the repository's root. */
export type OutsideReads = readonly string[] | undefined;

/** More than are ever written. */
const mostReads = 100;
/** In place of a path: all files. */
const anything = "*";

/**
 * The annotation's text: the project's own directory, which ends with a slash, and each other place, a line each. The
 * annotation is there even if there is no other place: without it, nothing is known.
 */
export function formatReads(path: string, reads: OutsideReads): string {
  return [ownLine(path), ...(reads ?? [anything])].join("\n");
}

/**
 * Users may write the annotation too, so any text is valid. Without the line of its own directory, it is from an older
 * server; with that of another directory, from before the deployment's path was changed.
 */
export function parseReads(path: string, text: string | undefined): OutsideReads {
  if (text === undefined) return undefined;
  const lines = text.split("\n").map((line) => line.trim());
  const named = lines.filter((line) => line !== "");
  const own = named.filter((line) => line.endsWith("/"));
  const others = named.filter((line) => !line.endsWith("/"));
  const isOfOther = own.length > 0 && !own.includes(ownLine(path));
  return isOfOther || others.includes(anything) || others.length > mostReads ? undefined : others;
}

/** The deployment with the record that a reconciliation would leave if its project reads nothing outside of its directory. */
export function assumeNoReads<T extends AnyDeployment>(deployment: T, path: string): T {
  const { annotations } = deployment;
  return { ...deployment, annotations: { [annotation.reads]: formatReads(path, []), ...annotations } };
}

function ownLine(path: string): string {
  return `${path}/`;
}

/**
 * The paths in kluctl's result, as rendered: relative to the directories of the projects that name them, which are
 * relative to that of the deployment's. Variables are also looked for in the projects that include these.
 */
export function renderedPaths({ deployment }: JsonObject): NamedPath[] {
  const found: NamedPath[] = [];

  function add(path: unknown, directories: readonly string[]): void {
    if (isText(path)) found.push(...directories.map((directory) => ({ directory, path })));
  }

  function addVars(vars: unknown, directories: readonly string[]): void {
    for (const source of listOf(vars)) add(fieldsOf(source)["file"], directories);
  }

  function walk(project: JsonObject, own: string, above: readonly string[]): void {
    addVars(project["vars"], [own, ...above]);
    for (const item of listOf(project["deployments"]).map(fieldsOf)) {
      const { path, include, vars, renderedHelmChartConfig, renderedInclude } = item;
      addVars(vars, [own, ...above]);
      add(path, [own]);
      add(include, [own]);
      const { helmChart } = fieldsOf(renderedHelmChartConfig);
      add(fieldsOf(helmChart)["path"], [below(own, path)]);
      // What other repositories include is theirs.
      if (isText(include)) walk(fieldsOf(renderedInclude), below(own, include), [own, ...above]);
    }
  }

  walk(fieldsOf(deployment), "", []);
  return found;
}

function below(directory: string, path: unknown): string {
  return [directory, path].filter((one) => isText(one)).join("/");
}

/** A path, and the directory from which it starts. Either may lead through parent directories. */
export interface NamedPath {
  readonly directory: string;
  readonly path: string;
}

/** What a project names elsewhere than in its files; the paths start from its directory. */
export interface NamedElsewhere {
  readonly paths: readonly NamedPath[];
  /** Texts such as arguments, which may contain paths. */
  readonly texts: readonly string[];
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
