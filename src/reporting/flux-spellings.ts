/** The statuses of what Flux applies from one repository whose resources spell its URL in different ways. */
import type { CommitStatus, CommitStatusRequest, RepoId } from "../model.ts";
import { type FluxStatuses, withoutMember } from "./flux-statuses.ts";

type Found = Awaited<ReturnType<FluxStatuses["of"]>>;

interface Asked {
  readonly request: CommitStatusRequest;
  /** The repository in each spelling. */
  readonly repos: readonly RepoId[];
  /** The existing statuses. */
  readonly written: readonly CommitStatus[];
}

/** Only all spellings together show whose statuses end: each has lines for what is of that spelling. */
export async function findApplied(
  flux: Pick<FluxStatuses, "of">,
  { request, repos, written }: Asked,
  signal: AbortSignal | undefined,
): Promise<Pick<Found, "lines" | "isUncertain" | "isOpen" | "again">> {
  const found = await Promise.all(repos.map((repo) => flux.of({ ...request, repo }, written, signal)));
  const contexts = new Set(found.flatMap((one) => [...one.contexts]));
  const lines = [...found.flatMap((one) => one.lines), ...withoutMember(written, contexts)];
  const again = found.flatMap((one) => one.again ?? []).toSorted((a, b) => a.afterMs - b.afterMs);
  return {
    lines,
    isUncertain: lines.length === 0 && found.some((one) => one.isUncertain),
    isOpen: found.some((one) => one.isOpen),
    again: again[0],
  };
}
