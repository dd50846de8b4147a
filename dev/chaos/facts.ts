/** What the checker reads out of a history. Pure. */
import type { DeploymentFacts, History, ObjectWrite, Push, Run, StatusWrite } from "./history.ts";

export function factsOf({ deployments }: History, name: string): DeploymentFacts | undefined {
  return deployments.find((one) => one.name === name);
}

/** The last status of each deployment that still exists. */
export function present({ statuses }: History): StatusWrite[] {
  const last = new Map(statuses.map((status) => [status.deployment, status]));
  return [...last.values()].filter(({ deleted }) => !deleted);
}

export function lastWrites({ objects }: History): ReadonlyMap<string, ObjectWrite> {
  return new Map(objects.map((write) => [write.name, write]));
}

/** The objects that exist and bear the deployment's name, whether it renders them or not. */
export function liveObjectsOf(history: History, deployment: string): ObjectWrite[] {
  const writes = [...lastWrites(history).values()];
  return writes.filter((write) => !write.deleted && ownerOf(history, write) === deployment);
}

/** The deployment whose name the object bears. */
export function ownerOf({ deployments }: History, { name }: Pick<ObjectWrite, "name">): string | undefined {
  const owners = deployments.map((one) => one.name).filter((one) => name.startsWith(`${one}-`));
  return owners.toSorted((a, b) => b.length - a.length)[0];
}

/** The harness sees a write, or the end of a run, this much later on a busy machine. */
const lateMs = 3_000;

/**
 * The runs that may have made the write: the one that it names, or else those that were alive. Servers prune by
 * themselves, right after the run that found what to prune. Empty if a user wrote it.
 */
export function possibleWriters(history: History, write: ObjectWrite): Run[] {
  if (write.run !== undefined) return history.runs.filter(({ id }) => id === write.run);
  const owner = ownerOf(history, write);
  const theirs = history.runs.filter(
    ({ deployment, command, mutating, startedAt }) =>
      deployment === owner && (mutating || command === "prune") && startedAt <= write.at,
  );
  return theirs.filter(({ endedAt = Infinity }, i) => i === theirs.length - 1 || endedAt >= write.at - lateMs);
}

/** Ids of the runs that changed objects, as the journal or, for a kluctl that does not report it, the ledger says. */
export function runsThatWrote(history: History): ReadonlySet<string> {
  const byJournal = history.runs.filter(({ wrote }) => wrote > 0).map(({ id }) => id);
  const byLedger = history.objects.flatMap((write) => {
    const [writer, other] = possibleWriters(history, write);
    return writer !== undefined && other === undefined && writer.mutating ? [writer.id] : [];
  });
  return new Set([...byJournal, ...byLedger]);
}

/**
 * Whether the object may be as a user left it: servers report that as drift, and the deployment's next deploy overwrites
 * it. `at`: deploys that ended later do not count.
 */
export function isOfPerson({ runs }: History, deployment: string, write: ObjectWrite | undefined, at = Infinity) {
  if (write?.run !== "person") return false;
  return !runs.some(
    (run) =>
      run.deployment === deployment &&
      run.command === "deploy" &&
      run.mutating &&
      run.exitCode === 0 &&
      run.startedAt > write.at &&
      (run.endedAt ?? Infinity) < at,
  );
}

export function pushesOf({ pushes }: History, repo: string): Push[] {
  return pushes.filter((push) => push.repo === repo);
}

/** Whether a webhook about the push names the deployment. */
export function concerns({ paths }: Push, { path }: DeploymentFacts): boolean {
  return paths.length === 0 || paths.some((one) => one.startsWith(`${path}/`));
}

/** Index of the last push of the commit until then; -1 if there is none. */
export function pushIndex(pushes: readonly Push[], commit: string | undefined, at: number): number {
  return pushes.findLastIndex((push) => push.commit === commit && push.at <= at);
}

/** Not deployed because another deployment with the same discriminator was there first. */
export function isRefused({ status: { ready } }: StatusWrite): boolean {
  return ready?.status === "False" && ready.message.includes("discriminator");
}

export function waitsForApproval({ spec, status }: StatusWrite): boolean {
  return spec.manual && (status.lastObjectsHash === undefined || spec.manualObjectsHash !== status.lastObjectsHash);
}

export function describe({ id, command, deployment, commit, replica, startedAt }: Run): string {
  return `${command} ${id} of ${deployment} at ${commit.slice(0, 7)} by ${replica} (${time(startedAt)})`;
}

export function time(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}
