import type { Forge } from "../ports.ts";

/** What statuses begin with unless somebody chose otherwise. */
export const usualStatusName = "towline";

/** The same forge, with another first word in the names of statuses: for servers that write beside the same commits. */
export function withStatusName(forge: Forge, name: string): Forge {
  if (name === usualStatusName) return forge;
  return {
    ...forge,
    setStatus: (commit, { context, ...status }, signal) =>
      forge.setStatus(commit, { context: `${name}${context.slice(usualStatusName.length)}`, ...status }, signal),
  };
}
