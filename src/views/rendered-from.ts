/** Names what a deployment is rendered from beside its own source, for display. Pure. */
import { fieldsOf, type JsonObject } from "../kit/json.ts";
import { describeRef, describeRefName } from "../model/git-ref.ts";
import { includedCommitsOf } from "../model/included-commits.ts";
import { parseIncludes, visitInputs } from "../model/includes.ts";
import { withoutLogin } from "../model/repo-url.ts";
import { annotation, type AnyDeployment } from "../model.ts";

/** No user reads more, and no real name is longer. */
const mostNamed = 100;
const longest = 500;

/**
 * Of a result: the git repositories, OCI artifacts and charts that its project names, each once. A chart with a version may
 * be a copy in the project.
 */
export function namesInputs({ deployment }: JsonObject): string[] {
  const found = new Set<string>();

  function add(url: unknown, what: string, name = ""): void {
    if (typeof url !== "string" || url === "") return;
    const where = [name, withoutSecrets(url), what].filter(Boolean).join(" ").replaceAll(/\s+/g, " ");
    // Not cut: half a secret would not be found.
    if (where.length <= longest) found.add(where);
  }

  visitInputs(deployment, {
    git(value) {
      const { url, ref } = fieldsOf(value);
      const { branch, tag, commit } = fieldsOf(ref);
      const named = { branch: textOf(branch), tag: textOf(tag), commit: textOf(commit) };
      add(url, typeof ref === "string" && ref !== "" ? describeRefName(ref) : describeRef(named));
    },
    artifact(value) {
      const { url, ref } = fieldsOf(value);
      const { tag, digest } = fieldsOf(ref);
      add(url, textOf(digest) ?? `tag ${textOf(tag) ?? "latest"}`);
    },
    chart(value) {
      const { repo, chartName, chartVersion } = fieldsOf(value);
      const version = textOf(chartVersion);
      add(
        repo,
        version === undefined ? "" : `version ${version}`,
        ["chart", textOf(chartName)].filter(Boolean).join(" "),
      );
    },
  });
  return [...found].toSorted().slice(0, mostNamed);
}

/** A URL's query often holds a token. */
function withoutSecrets(url: string): string {
  return withoutLogin(url.replace(/[?#].*$/s, ""));
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Of a deployment: what was recorded when it was reconciled last, which may change without a commit of its own. */
export function namesIncludes(deployment: AnyDeployment): string[] {
  const commits = includedCommitsOf(deployment);
  const includes = parseIncludes(deployment.annotations[annotation.includes]);
  return includes.map(({ url, refs }) => {
    const isArtifact = url.startsWith("oci://");
    const names = isArtifact ? refs.map((tag) => `tag ${tag}`) : refs.map(describeRefName);
    const known = commits.find((one) => one.url === url && (refs.length === 0 || refs.includes(one.ref)));
    const at = known === undefined ? "" : `, ${known.commit.slice(0, 7)} or newer`;
    return `${withoutSecrets(url)} ${names.join(" or ") || "the default branch"}${at}`;
  });
}
