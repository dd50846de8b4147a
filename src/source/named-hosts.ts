/** Where a project says that it fetches from: charts, artifacts, other repositories, kustomize's resources. */
import type { Git } from "./git.ts";

/** In which kluctl and kustomize look for that. What templates or vars make of it is not known. */
const files = ["helm-chart", "deployment", ".kluctl", ".kluctl-library", "kustomization"].flatMap((name) =>
  ["yaml", "yml"].map((end) => `:(glob)**/${name}.${end}`),
);
const address = /(?:\b(?:repo|url)["']?\s*:|^\s*-)\s*["']?(?:https?|oci):\/\/(?:[^\s/"'@}]*@)?([^\s/"'?#},]+)/g;
const mostHosts = 100;

/** In the files of that commit; each as people write it, with its port if it has one. */
export async function findNamedHosts(
  git: Git,
  { root, commit }: { readonly root: string; readonly commit: string },
  signal: AbortSignal,
): Promise<readonly string[]> {
  // The second is in nearly every project: where git prints nothing, simple-git waits (see git.ts).
  const lines = await git(["grep", "-I", "-h", "-F", "-e", "://", "-e", "deployments:", commit, "--", ...files], {
    at: { tree: root },
    protocols: [],
    answers: [1], // there are none
    signal,
  });
  const hosts = lines.split("\n").flatMap((line) => {
    return /^\s*#/.test(line) ? [] : [...line.slice(0, 2_000).matchAll(address)].map(([, host = ""]) => host);
  });
  return [...new Set(hosts)].slice(0, mostHosts);
}
