/** Runs work on the same thing one after the other, and on different things at the same time. */
import { createLimit, type Limit } from "./limit.ts";

export interface Turns {
  /** `name`: of the thing. Rejects like the work, or with the signal's reason while it waits. */
  run<T>(name: string, work: () => Promise<T>, options: { readonly signal?: AbortSignal | undefined }): Promise<T>;
}

export function createTurns(): Turns {
  const limits = new Map<string, Limit>();
  return {
    async run(name, work, { signal }) {
      const limit = limits.get(name) ?? createLimit(1);
      limits.set(name, limit);
      try {
        return await limit.run(work, { signal });
      } finally {
        if (limit.idle()) limits.delete(name);
      }
    },
  };
}
