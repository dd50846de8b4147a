import { around } from "../kit/around.ts";
import type { CommitStatus } from "../model.ts";
import type { Forge } from "../ports.ts";

/** The default prefix of status names. */
export const usualStatusName = "towline";

/** Wraps a forge to use another prefix in the names of statuses: for servers that write to the same commits. */
export function withStatusName(forge: Forge, name: string): Forge {
  if (name === usualStatusName) return forge;
  const toOwn = ({ context, ...status }: CommitStatus): CommitStatus => ({
    context: `${name}${context.slice(usualStatusName.length)}`,
    ...status,
  });
  return around<Forge>(forge, {
    setStatus: (next, commit, status, signal) => next(commit, toOwn(status), signal),
    async setStatuses(next, commit, statuses, onShown, signal) {
      const usual = new Map(statuses.map((status) => [toOwn(status), status]));
      await next(commit, [...usual.keys()], (own, form) => onShown(usual.get(own) ?? own, form), signal);
    },
  });
}
