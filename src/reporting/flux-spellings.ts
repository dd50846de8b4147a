/** The statuses of what Flux applies from one repository whose resources spell its URL in different ways. */
import type { CommitStatus, CommitStatusRequest, RepoId } from "../model.ts";
import type { FluxStatuses } from "./flux-statuses.ts";
import { isSaid } from "./write-statuses.ts";

type Found = Awaited<ReturnType<FluxStatuses["of"]>>;

interface Asked {
  readonly request: CommitStatusRequest;
  /** The repository in each spelling. */
  readonly repos: readonly RepoId[];
  /** The existing statuses. */
  readonly written: readonly CommitStatus[];
}

/** Each spelling alone would end the statuses of what the others apply. */
export async function findApplied(
  flux: Pick<FluxStatuses, "of">,
  { request, repos, written }: Asked,
  signal: AbortSignal | undefined,
): Promise<Found> {
  const found = await Promise.all(repos.map((repo) => flux.of({ ...request, repo }, written, signal)));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  const lines = new Map<string, CommitStatus>();
  for (const line of found.flatMap((one) => one.lines)) {
    const before = lines.get(line.context);
    if (before === undefined || isOfNone(before, written)) lines.set(line.context, line);
  }
  const again = found.flatMap((one) => one.again ?? []).toSorted((a, b) => a.afterMs - b.afterMs);
  return {
    lines: [...lines.values()],
    isUncertain: lines.size === 0 && found.some((one) => one.isUncertain),
    isOpen: found.some((one) => one.isOpen),
    again: again[0],
  };
}

/** Whether it is, or may be, what becomes of the status of a resource that does not apply the repository. */
function isOfNone(line: CommitStatus, written: readonly CommitStatus[]): boolean {
  const known = written.find(({ context }) => context === line.context);
  return known?.state === "pending" ? line.state === "canceled" : known !== undefined && isSaid([line], [known]);
}
