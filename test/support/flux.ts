/** GitRepositories of Flux, as the server reads them. */
import type { FluxRef, FluxSource } from "../../src/model.ts";
import { repoId } from "../../src/model/repo-url.ts";

export function aFluxSource({
  name = "shop",
  url = "https://git.example.com/org/shop",
  ref = { branch: "main" },
  commit = undefined as string | undefined,
}: { name?: string; url?: string; ref?: FluxRef; commit?: string } = {}): FluxSource {
  const key = { namespace: "flux-system", name };
  const state = { suspended: false, webhooks: true, isRequested: false };
  return { key, uid: `uid-${name}`, repo: repoId(url)!, url, ref, commit, ...state };
}
