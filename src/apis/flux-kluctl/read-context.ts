import type { ReaderDeps } from "../api.ts";
import type { ApiResource } from "../resource.ts";
import type { EntryContext } from "./entry.ts";
import { createGitRepositoryReader } from "./git-repositories.ts";
import { referencesOf } from "./translate-spec.ts";

/** Returns a function that reads the objects that a resource references. */
export function createContextReader({ client, secrets }: ReaderDeps): (resource: ApiResource) => Promise<EntryContext> {
  const repositories = createGitRepositoryReader(client);
  return async ({ metadata: { namespace }, spec }) => {
    const { gitRepository: named, helmSecrets: names, serviceAccount } = referencesOf(spec, namespace);
    const gitRepository = named && (await repositories.get(named));
    if (secrets === undefined) return { gitRepository };
    const found = await Promise.all(
      names.map(async (name) => [name, await secrets.get(namespace, name, serviceAccount)] as const),
    );
    return { gitRepository, helmSecrets: new Map(found.flatMap(([name, data]) => (data ? [[name, data]] : []))) };
  };
}
