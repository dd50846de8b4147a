import { around } from "../kit/around.ts";
import type { Forge } from "../ports.ts";

/** The default prefix of status names. */
export const usualStatusName = "towline";

/** Wraps a forge to use another prefix in the names of statuses: for servers that write to the same commits. */
export function withStatusName(forge: Forge, name: string): Forge {
  if (name === usualStatusName) return forge;
  return around<Forge>(forge, {
    setStatus: (next, commit, { context, ...status }, signal) =>
      next(commit, { context: `${name}${context.slice(usualStatusName.length)}`, ...status }, signal),
  });
}
