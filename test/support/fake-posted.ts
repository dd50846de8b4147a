/** What was written to environments, in memory. */
import type { PostedDeployment } from "../../src/model.ts";
import type { PostedDeployments } from "../../src/ports.ts";

export function fakePosted(): PostedDeployments & { readonly saved: Map<string, PostedDeployment> } {
  /** By environment and ref, of the only repository. */
  const saved = new Map<string, PostedDeployment>();
  return {
    saved,
    of: () => Promise.resolve([...saved.values()]),
    save: (_repo, posted) => Promise.resolve(void saved.set(`${posted.environment} ${posted.ref}`, posted)),
  };
}
