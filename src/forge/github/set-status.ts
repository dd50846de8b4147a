/**
 * Shows a status as a check run or as a commit status. GitHub counts both: a required name passes only if the run and the
 * status with this name do. So whichever of them is written, the other one is ended afterwards if it is there. In this
 * order, a required name is answered at every moment, and never passes in between.
 */
import { createBoundedMap } from "../../kit/bounded-map.ts";
import type { Logger } from "../../log.ts";
import type { CommitKey, CommitStatus } from "../../model.ts";
import type { Forge } from "../../ports.ts";
import type { ReportAs } from "../forge-options.ts";
import { checkCall, createChecks } from "./checks.ts";
import type { AppClient, Client } from "./client.ts";
import { isProblem } from "./login.ts";
import { createStatuses, statusCall } from "./statuses.ts";

export interface SetStatusDeps {
  readonly client: Client;
  readonly reportAs: ReportAs;
  readonly log: Logger;
}

export const howToGrantChecks =
  "add the permission Checks: read and write to the App, and accept the change where it is installed";

/** Owners of repositories. */
const maxWarned = 1_000;

export function createGithubSetStatus({ client, reportAs, log }: SetStatusDeps): Forge["setStatus"] {
  const statuses = createStatuses(client);
  const { app } = client;
  if (app === undefined) {
    return async (commit, status, signal) => {
      await statuses.write(commit, status, signal);
      return "status";
    };
  }
  const checks = createChecks(client, app);
  const warned = createBoundedMap<true>({ entries: maxWarned });

  return async function setStatus(commit, status, signal) {
    const mayCheck = await mayWriteChecks(app, commit, status, signal);
    if (reportAs === "auto" && !mayCheck) warnOfLack(commit);
    if (reportAs === "checks" || (reportAs === "auto" && mayCheck)) {
      try {
        await checks.write(commit, status, signal);
        if (await app.mayWrite(statusCall(commit, signal))) await statuses.end(commit, status.context, signal);
        return "check";
      } catch (error) {
        // The permission may have been withdrawn since it was read.
        const isDenied = reportAs === "auto" && isProblem(error, "unauthorized");
        if (!isDenied || (await app.mayWrite(checkCall(commit, signal), { fresh: true }))) throw error;
      }
    }
    await statuses.write(commit, status, signal);
    if (await app.mayWrite(checkCall(commit, signal))) await checks.end(commit, status.context, signal);
    return "status";
  };

  function warnOfLack({ forge, repoName }: CommitKey): void {
    const [owner = ""] = repoName.toLowerCase().split("/");
    if (warned.get(owner)) return;
    warned.set(owner, true);
    const what = "the App may not write check runs: commit statuses are written instead";
    log.warn({ forge, repo: repoName }, `${what}; ${howToGrantChecks}`);
  }
}

/**
 * A permission that was granted recently may be known to another server already, which wrote a run: then it counts here as
 * well, because nothing else would end that run.
 */
async function mayWriteChecks(
  app: AppClient,
  commit: CommitKey,
  { shown }: CommitStatus,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const call = checkCall(commit, signal);
  return (await app.mayWrite(call)) || (shown !== undefined && (await app.mayWrite(call, { fresh: true })));
}
