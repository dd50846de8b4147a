/**
 * Shows statuses as check runs or as commit statuses. GitHub counts both: a required name passes only if the run and the
 * status with this name do. So whichever of them is written, the other one is ended afterwards if it is there. In this
 * order, a required name is answered at every moment, and never passes in between.
 */
import { createBoundedMap } from "../../kit/bounded-map.ts";
import type { Logger } from "../../log.ts";
import type { CommitKey, CommitStatus, StatusForm } from "../../model.ts";
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

type SetStatuses = NonNullable<Forge["setStatuses"]>;

/** Owners of repositories. */
const maxWarned = 1_000;

export function createGithubSetStatuses({ client, reportAs, log }: SetStatusDeps): SetStatuses {
  const statuses = createStatuses(client);
  const { app } = client;
  if (app === undefined) {
    return async (commit, all, onShown, signal) => {
      for (const status of all) {
        await statuses.write(commit, status, signal);
        onShown(status, "status");
      }
    };
  }
  const checks = createChecks(client, app);
  const warned = createBoundedMap<true>({ entries: maxWarned });

  return async function setStatuses(commit, all, onShown, signal) {
    const left = [...all];
    const mayCheck = await mayWriteChecks(app, commit, all, signal);
    if (reportAs === "auto" && !mayCheck) warnOfLack(commit);
    if (reportAs === "checks" || (reportAs === "auto" && mayCheck)) {
      try {
        return await show("check", await checks.open(commit, left, signal), async (contexts) => {
          if (await app.mayWrite(statusCall(commit, signal))) await statuses.end(commit, contexts, signal);
        });
      } catch (error) {
        // The permission may have been withdrawn since it was read.
        const isDenied = reportAs === "auto" && isProblem(error, "unauthorized");
        if (!isDenied || (await app.mayWrite(checkCall(commit, signal), { fresh: true }))) throw error;
      }
    }
    const write = (status: CommitStatus) => statuses.write(commit, status, signal);
    return show("status", write, async (contexts) => {
      if (await app.mayWrite(checkCall(commit, signal))) await checks.end(commit, contexts, signal);
    });

    /** Writes what is left in one form, and then ends the other form of what was written, also if one is refused. */
    async function show(
      form: StatusForm,
      write: (status: CommitStatus) => Promise<void>,
      endOthers: (contexts: readonly string[]) => Promise<void>,
    ): Promise<void> {
      const written: CommitStatus[] = [];
      try {
        for (const status of left) {
          await write(status);
          written.push(status);
        }
      } finally {
        if (written.length > 0) await endOthers(written.map(({ context }) => context));
        left.splice(0, written.length);
        for (const status of written) onShown(status, form);
      }
    }
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
  statuses: readonly CommitStatus[],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const call = checkCall(commit, signal);
  const areShown = statuses.some(({ shown }) => shown !== undefined);
  return (await app.mayWrite(call)) || (areShown && (await app.mayWrite(call, { fresh: true })));
}
