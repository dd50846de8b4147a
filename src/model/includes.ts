/**
 * The git repositories that a project includes: as projects, variables or charts, and the OCI artifacts that it includes
 * as projects, or as charts by a tag that moves. Each deploy records them in an annotation of the deployment, so that every server knows from its watch
 * which deployments a push to such a repository, or a moved tag, concerns. Pure.
 */
import { fieldsOf, type JsonObject, listOf } from "../kit/json.ts";
import { annotation, type AnyDeployment, followsGit } from "./deployment.ts";
import type { OciSource, RepoId } from "./source.ts";
import { repoId, reposOfUrls, withoutLogin } from "./repo-url.ts";

export interface Include {
  readonly url: string;
  /**
   * Full names of the refs that it may follow; empty: the default branch. A commit that it is pinned to stands for itself.
   * Of an artifact (`oci://`): its tag.
   */
  readonly refs: readonly string[];
}

/** More than any project has. Whatever is left out waits for the interval. */
const mostIncludes = 100;
const longestUrl = 500;
const [mostRefs, longestRef] = [10, 300];

/**
 * Found in kluctl's result. What is pinned to a commit never changes, and is left out, unless the project includes the
 * repository at another ref as well: a preview cannot tell the two apart. A form that is not known is ignored: its pushes
 * are found at the interval.
 */
export function includesOf({ deployment }: JsonObject): Include[] {
  const found = new Map<string, Include>();
  const pinned = new Map<string, Include>();

  function add(value: unknown): void {
    const { url, ref } = fieldsOf(value);
    if (typeof url !== "string" || url === "" || url.length > longestUrl || /\s/.test(url)) return;
    const refs = refsOf(ref);
    if (refs === undefined) return;
    const include = { url: withoutLogin(url), refs };
    (refs.some(isCommit) ? pinned : found).set(JSON.stringify(include), include);
  }

  /** A digest never changes, and is not recorded. */
  function addArtifact(value: unknown): void {
    const { url, ref } = fieldsOf(value);
    const { tag, digest } = fieldsOf(ref);
    if (typeof url !== "string" || !isArtifact(url) || url.length > longestUrl || /\s/.test(url) || digest) return;
    const name = typeof tag === "string" && tag !== "" ? tag : "latest";
    const include = { url: withoutLogin(url), refs: [name] };
    if (isName(name)) found.set(JSON.stringify(include), include);
  }

  /**
   * kluctl accepts no ranges of versions, but Helm takes `1.2` for a tag of a registry, and kluctl pulls a chart that is not in the
   * project each time if its own version is another one.
   */
  function addChart(value: unknown): void {
    const { repo, chartVersion, skipPrePull } = fieldsOf(value);
    const isMoving = skipPrePull === true && typeof chartVersion === "string" && shortVersion.test(chartVersion);
    if (isMoving) addArtifact({ url: repo, ref: { tag: chartVersion } });
  }

  visitInputs(deployment, { git: add, artifact: addArtifact, chart: addChart });
  const moving = new Set([...found.values()].map(({ url }) => repoId(url)));
  return [...found.values(), ...[...pinned.values()].filter(({ url }) => moving.has(repoId(url)))];
}

const shortVersion = /^v?\d+(?:\.\d+)?$/;

export interface InputVisitor {
  git(value: unknown): void;
  artifact(value: unknown): void;
  chart(value: unknown): void;
}

/** Visits what the project of a result names elsewhere. Any value may be of another type than expected, or absent. */
export function visitInputs(deployment: unknown, { git, artifact, chart }: InputVisitor): void {
  function visitVars(value: unknown): void {
    for (const source of listOf(value)) {
      git(fieldsOf(source)["git"]);
      git(fieldsOf(source)["gitFiles"]);
    }
  }

  function visit(project: JsonObject): void {
    visitVars(project["vars"]);
    for (const item of listOf(project["deployments"]).map(fieldsOf)) {
      visitVars(item["vars"]);
      git(item["git"]);
      artifact(item["oci"]);
      const { helmChart } = fieldsOf(item["renderedHelmChartConfig"]);
      git(fieldsOf(helmChart)["git"]);
      chart(helmChart);
      visit(fieldsOf(item["renderedInclude"]));
    }
  }

  visit(fieldsOf(deployment));
}

/** `undefined`: it cannot be recorded. */
function refsOf(value: unknown): string[] | undefined {
  if (typeof value === "string" && value !== "") {
    if (!isName(value)) return undefined;
    if (value.startsWith("refs/")) return [value];
    return [`refs/heads/${value}`, `refs/tags/${value}`]; // older versions of kluctl do not say which
  }
  const { branch, tag, commit } = fieldsOf(value);
  if ([branch, tag].some((name) => typeof name === "string" && !isName(name))) return undefined;
  if (typeof commit === "string" && commit !== "") return [isName(commit) ? commit : "unknown"];
  if (typeof tag === "string" && tag !== "") return [`refs/tags/${tag}`];
  return typeof branch === "string" && branch !== "" ? [`refs/heads/${branch}`] : [];
}

/** The annotation's text: one include a line, its URL and its refs; `undefined` if there are none. */
export function formatIncludes(includes: readonly Include[]): string | undefined {
  const lines = includes.map(({ url, refs }) => [url, ...refs].join(" ")).toSorted();
  return lines.length === 0 ? undefined : lines.slice(0, mostIncludes).join("\n");
}

/** Users may write the annotation too: any text is valid, and what names no repository matches none. */
export function parseIncludes(text: string | undefined): Include[] {
  const lines = (text ?? "").split("\n").slice(0, mostIncludes);
  return lines.flatMap((line) => {
    const [url = "", ...refs] = line.trim().split(/\s+/);
    const short = refs.filter(isName).slice(0, mostRefs);
    return url === "" || url.length > longestUrl || short.length < Math.min(refs.length, 1)
      ? []
      : [{ url, refs: short }];
  });
}

/** The artifacts that its last deploy included by tag. */
export function includedArtifacts({ annotations }: Pick<AnyDeployment, "annotations">): OciSource[] {
  const text = annotations[annotation.includes];
  // The sweep asks for those of all deployments every second, and most have none.
  if (text === undefined || !text.includes("oci://")) return [];
  const artifacts = parseIncludes(text).filter(({ url }) => isArtifact(url));
  return artifacts.map(({ url, refs: [tag = "latest"] }) => ({ kind: "oci", url, ref: { tag }, path: "" }));
}

/** The repositories that its last deploy included. */
export function includedBy({ annotations }: Pick<AnyDeployment, "annotations">): ReadonlySet<RepoId> {
  return reposOfUrls(parseIncludes(annotations[annotation.includes]).map(({ url }) => url));
}

/** The repositories whose pull requests may have been previewed: those that the deployments follow, and those that they include. */
export function reposOfDeployments(deployments: readonly AnyDeployment[]): readonly RepoId[] {
  const repos = deployments.flatMap((one) => [...(followsGit(one) ? [one.repo] : []), ...includedBy(one)]);
  return [...new Set(repos)];
}

/**
 * The includes of one of these repositories; `undefined` if there may be more than the annotation has room for.
 */
export function includesFrom(
  { annotations }: Pick<AnyDeployment, "annotations">,
  repos: ReadonlySet<RepoId>,
): Include[] | undefined {
  const all = parseIncludes(annotations[annotation.includes]);
  return all.length < mostIncludes ? all.filter(({ url }) => isOf(url, repos)) : undefined;
}

/** Whether the URL is that of one of these repositories. */
export function isOf(url: string, repos: ReadonlySet<RepoId>): boolean {
  const repo = repoId(url);
  return repo !== undefined && repos.has(repo);
}

function isArtifact(url: string): boolean {
  return url.startsWith("oci://");
}

/** Full names of refs start differently. */
function isCommit(ref: string): boolean {
  return !ref.startsWith("refs/");
}

function isName(ref: string): boolean {
  return ref.length <= longestRef && !/\s/.test(ref);
}
