import type { Forge } from "../ports.ts";

/** The default prefix of status names. */
export const usualStatusName = "towline";

/** Wraps a forge to use another prefix in the names of statuses: for servers that write to the same commits. */
export function withStatusName(forge: Forge, name: string): Forge {
  if (name === usualStatusName) return forge;
  return {
    ...forge,
    setStatus: (commit, { context, ...status }, signal) =>
      forge.setStatus(commit, { context: `${name}${context.slice(usualStatusName.length)}`, ...status }, signal),
  };
}
