/**
 * Deployments that share a discriminator on one cluster. By it kluctl tells whose an object is, so each takes the other's
 * objects for its own: it would prune them, and delete them at its end. Pure, from the watch's memory.
 */
import {
  isMalformed,
  keyText,
  type Deployment,
  type DeploymentSpec,
  type MalformedDeployment,
  type TargetKey,
} from "../model.ts";

type Entry = Deployment | MalformedDeployment;

/** Those that have deployed under the same discriminator, to the same cluster, what may be the same objects. */
export function findSharing(mine: Deployment, key: TargetKey | undefined, all: readonly Entry[]): Deployment[] {
  return findOthers(mine, key, all).filter(stays);
}

/** Those that a newcomer has to wait for: also one that is being deleted, and may take the newcomer's objects with it. */
export function findFirst(mine: Deployment, key: TargetKey, all: readonly Entry[]): Deployment[] {
  const others = findOthers(mine, key, all);
  return [...others.filter(stays), ...others.filter(takesObjectsAlong)];
}

/** Whether it is worth to know one's discriminator before the first deploy: a copy of a resource is of the same project. */
export function mayCollide(mine: Deployment, all: readonly Entry[]): boolean {
  if (!ownsObjects(mine)) return false;
  const others = all.filter((other): other is Deployment => mayShare(mine, other) && sameRepository(mine, other));
  return others.some((other) => stays(other) || takesObjectsAlong(other));
}

/** It has not deployed under this key before, so that whoever has was there first. */
export function isNewcomer({ status }: Deployment, key: TargetKey): boolean {
  return status.lastDeployResult === undefined || !isSame(status.targetKey, key);
}

/** The name of a target does not matter: nothing on the cluster carries it. */
function isSame(one: TargetKey | undefined, other: TargetKey): boolean {
  return one?.discriminator === other.discriminator && one?.clusterId === other.clusterId;
}

/** Those that wait for the one that goes: it was there first, or kept them from pruning. */
export function findRelieved(gone: Entry, all: readonly Entry[]): Deployment[] {
  const key = gone.status.targetKey;
  if (!key?.discriminator) return [];
  return all.filter((other): other is Deployment => !isMalformed(other) && isSame(other.status.targetKey, key));
}

export function refusal(discriminator: string, [first]: readonly Deployment[]): string {
  const where = first === undefined ? "another deployment" : keyText(first.key);
  return `not deployed: ${where} is older and deploys to this cluster with the same discriminator ${JSON.stringify(discriminator)}, so each would treat the other's objects as its own. Make the discriminator in .kluctl.yaml depend on something that differs between them, e.g. an argument, or remove one of them.`;
}

export function sharingNote(discriminator: string, others: readonly Deployment[]): string {
  const names = others.slice(0, 3).map(({ key }) => keyText(key));
  const more = others.length > 3 ? ` and ${others.length - 3} more` : "";
  return `Shares the discriminator ${JSON.stringify(discriminator)} with ${names.join(", ")}${more}: nothing is pruned or deleted, because each would treat the other's objects as its own.`;
}

function findOthers(mine: Deployment, key: TargetKey | undefined, all: readonly Entry[]): Deployment[] {
  if (!key?.discriminator || key.clusterId === "" || !ownsObjects(mine)) return [];
  return all.filter((other): other is Deployment => isSame(other.status.targetKey, key) && mayShare(mine, other));
}

function mayShare(mine: Deployment, other: Entry): other is Deployment {
  if (isMalformed(other) || keyText(other.key) === keyText(mine.key)) return false;
  return other.status.lastDeployResult !== undefined && ownsObjects(other) && !areDisjoint(mine.spec, other.spec);
}

function stays({ deletionTimestamp }: Deployment): boolean {
  return deletionTimestamp === undefined;
}

function takesObjectsAlong(deployment: Deployment): boolean {
  return !stays(deployment) && deployment.spec.delete && !deployment.spec.suspend;
}

/** A dry run leaves no objects behind, and poking images makes none. */
function ownsObjects({ spec }: Deployment): boolean {
  return !spec.dryRun && spec.deployMode === "full-deploy";
}

function sameRepository({ spec }: Deployment, other: Deployment): boolean {
  return spec.source.url === other.spec.source.url;
}

/** Parts of one project, chosen by tags or by directories: kluctl looks for orphans among the chosen only. */
function areDisjoint(one: DeploymentSpec, other: DeploymentSpec): boolean {
  const byDirs = [one, other].some((spec) => spec.includeDeploymentDirs.length + spec.excludeDeploymentDirs.length > 0);
  const byTags = [one, other].some((spec) => spec.includeTags.length + spec.excludeTags.length > 0);
  if (byDirs === byTags) return false; // both at once may mean anything
  return byTags
    ? areApart(one.includeTags, one.excludeTags, other.includeTags, other.excludeTags, (a, b) => a === b)
    : areApart(
        one.includeDeploymentDirs,
        one.excludeDeploymentDirs,
        other.includeDeploymentDirs,
        other.excludeDeploymentDirs,
        (a, b) => `${a}/`.startsWith(`${b}/`) || `${b}/`.startsWith(`${a}/`),
      );
}

type Names = readonly string[];

function areApart(
  mine: Names,
  notMine: Names,
  theirs: Names,
  notTheirs: Names,
  meet: (a: string, b: string) => boolean,
) {
  const bothChoose = mine.length > 0 && theirs.length > 0;
  if (bothChoose && !mine.some((a) => theirs.some((b) => meet(a, b)))) return true;
  const leavesOut = (chosen: Names, left: Names) => chosen.length > 0 && chosen.every((name) => left.includes(name));
  return leavesOut(mine, notTheirs) || leavesOut(theirs, notMine);
}
