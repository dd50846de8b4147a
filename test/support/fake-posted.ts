/** What was written to environments, in memory. */
import type { PostedDeployment } from "../../src/model.ts";
import type { PostedDeployments } from "../../src/ports.ts";

export function fakePosted(): PostedDeployments & { readonly saved: Map<string, PostedDeployment> } {
  /** By environment and ref, of the only repository. */
  const saved = new Map<string, PostedDeployment>();
  return {
    saved,
    of() {
      const read = new Map(saved);
      const save = (posted: PostedDeployment) => {
        const name = `${posted.environment} ${posted.ref}`;
        if (saved.get(name) !== read.get(name)) return Promise.resolve(false);
        for (const known of [saved, read]) known.set(name, posted);
        return Promise.resolve(true);
      };
      return Promise.resolve({ all: [...read.values()], save });
    },
  };
}
