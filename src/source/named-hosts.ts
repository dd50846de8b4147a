/** Finds the hosts that a project fetches from: charts, artifacts, other repositories, kustomize's resources. */
import type { Git } from "./git.ts";

/** The files in which kluctl and kustomize name them. URLs produced by templates or vars are not found. */
const files = ["helm-chart", "deployment", ".kluctl", ".kluctl-library", "kustomization"].flatMap((name) =>
  ["yaml", "yml"].map((end) => `:(glob)**/${name}.${end}`),
);
const address = /(?:\b(?:repo|url)["']?\s*:|^\s*-)\s*["']?(?:https?|oci):\/\/(?:[^\s/"'@}]*@)?([^\s/"'?#},]+)/g;
const mostHosts = 100;

/** Searches the files of that commit; returns hosts as written, with their port if they have one. */
export async function findNamedHosts(
  git: Git,
  { root, commit }: { readonly root: string; readonly commit: string },
  signal: AbortSignal,
): Promise<readonly string[]> {
  // The second pattern is in nearly every project, so that git prints something: otherwise simple-git waits (see
  // git.ts).
  const lines = await git(["grep", "-I", "-h", "-F", "-e", "://", "-e", "deployments:", commit, "--", ...files], {
    at: { tree: root },
    protocols: [],
    answers: [1], // no match
    signal,
  });
  const hosts = lines.split("\n").flatMap((line) => {
    return /^\s*#/.test(line) ? [] : [...line.slice(0, 2_000).matchAll(address)].map(([, host = ""]) => host);
  });
  return [...new Set(hosts)].slice(0, mostHosts);
}
