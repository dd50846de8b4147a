/**
 * Finds deployments that share a discriminator on one cluster. kluctl uses the discriminator to decide which objects
 * belong to a deployment, so each would treat the other's objects as its own: it would prune them, and delete them when
 * it is deleted. Pure, based on the watch's state.
 */
import {
  isMalformed,
  keyText,
  type Deployment,
  type DeploymentSpec,
  type DeploymentStatus,
  type MalformedDeployment,
  type TargetKey,
} from "../model.ts";
import { readyCondition } from "../reconcile/status/conditions.ts";

type Entry = Deployment | MalformedDeployment;

/** The other deployments that deployed to the same cluster with the same discriminator and may own the same objects. */
export function findSharing(mine: Deployment, key: TargetKey | undefined, all: readonly Entry[]): Deployment[] {
  return findOthers(mine, key, all).filter(stays);
}

/**
 * The deployments a new one has to wait for: those of the same repository, and those being deleted, which may delete its
 * objects as well. Another project's deployment is not waited for, whether or not this one happened to compare first: both
 * deploy then, and neither prunes.
 */
export function findFirst(mine: Deployment, key: TargetKey, all: readonly Entry[]): Deployment[] {
  const others = findOthers(mine, key, all);
  return [
    ...others.filter((other) => stays(other) && sameRepository(mine, other)),
    ...others.filter(takesObjectsAlong),
  ];
}

/**
 * Whether the discriminator has to be known before the first deploy. Only deployments of the same repository are
 * considered: a copied resource uses the same project. Of those that were never deployed, only of the same directory.
 */
export function mayCollide(mine: Deployment, all: readonly Entry[]): boolean {
  if (!ownsObjects(mine)) return false;
  const others = all.filter((other): other is Deployment => mayShare(mine, other) && sameRepository(mine, other));
  return (
    others.some((other) => mayHaveApplied(other) && (stays(other) || takesObjectsAlong(other))) ||
    findRivals(mine, all).length > 0
  );
}

/** Other deployments of the same project that were never deployed, and may be deployed at the same moment. */
export function findRivals(mine: Deployment, all: readonly Entry[]): Deployment[] {
  const { source } = mine.spec;
  return all.filter(
    (other): other is Deployment =>
      mayShare(mine, other) &&
      sameRepository(mine, other) &&
      source.path === other.spec.source.path &&
      other.status.lastDeployResult === undefined &&
      stays(other),
  );
}

/** Of two deployments that begin their first deploys at the same moment, the older one goes first. */
export function isOlder(mine: Deployment, others: readonly Deployment[]): boolean {
  const age = ({ creationTimestamp = "", uid }: Deployment) => `${creationTimestamp} ${uid}`;
  return others.every((other) => other.status.lastDeployResult === undefined && age(mine) < age(other));
}

/** Whether the watch shows that the deployment claims this key for its first deploy. */
export function hasClaimed({ key }: Deployment, wanted: TargetKey, all: readonly Entry[]): boolean {
  const found = all.find((entry) => keyText(entry.key) === keyText(key));
  return found !== undefined && mayHaveApplied(found) && isSameTarget(found.status.targetKey, wanted);
}

/** Whether it has not deployed under this key before, so that any deployment that has was there first. */
export function isNewcomer({ status }: Deployment, key: TargetKey): boolean {
  return status.lastDeployResult === undefined || !isSameTarget(status.targetKey, key);
}

/** Whether they mean the same objects. The target's name does not matter: no object on the cluster contains it. */
export function isSameTarget(one: TargetKey | undefined, other: TargetKey): boolean {
  return one?.discriminator === other.discriminator && one?.clusterId === other.clusterId;
}

/** The deployments that the removed one blocked: it was there first, or prevented them from pruning. */
export function findRelieved(gone: Entry, all: readonly Entry[]): Deployment[] {
  const key = gone.status.targetKey;
  if (!key?.discriminator) return [];
  return all.filter((other): other is Deployment => !isMalformed(other) && isSameTarget(other.status.targetKey, key));
}

/** What the message of `Ready` begins with if nothing is deployed because of the discriminator. */
export const notDeployed = "not deployed: ";

export function refusal(discriminator: string, [first]: readonly Deployment[]): string {
  const where = first === undefined ? "another deployment" : keyText(first.key);
  return `${notDeployed}${where} is older and deploys to this cluster with the same discriminator ${JSON.stringify(discriminator)}, so each would treat the other's objects as its own. Make the discriminator in .kluctl.yaml depend on something that differs between them, e.g. an argument, or remove one of them.`;
}

export function sharingNote(discriminator: string, others: readonly Deployment[]): string {
  const names = others.slice(0, 3).map(({ key }) => keyText(key));
  const more = others.length > 3 ? ` and ${others.length - 3} more` : "";
  return `Shares the discriminator ${JSON.stringify(discriminator)} with ${names.join(", ")}${more}: nothing is pruned or deleted, because each would treat the other's objects as its own.`;
}

function findOthers(mine: Deployment, key: TargetKey | undefined, all: readonly Entry[]): Deployment[] {
  if (!key?.discriminator || key.clusterId === "" || !ownsObjects(mine)) return [];
  return all.filter(
    (other): other is Deployment =>
      isSameTarget(other.status.targetKey, key) && mayShare(mine, other) && mayHaveApplied(other),
  );
}

/**
 * Whether it has deployed, or has begun to: its first deploy claims the key before it starts, and then has no hash. One
 * that has only compared has a hash as well. One that was refused may have none, but its `Ready` says that it was.
 */
function mayHaveApplied({ status }: Entry): boolean {
  if (status.lastDeployResult !== undefined) return true;
  return status.targetKey !== undefined && status.lastObjectsHash === undefined && !wasRefused(status);
}

/** A claim replaces this verdict, so that it lasts as long as nothing else has begun. */
function wasRefused(status: DeploymentStatus): boolean {
  const ready = readyCondition(status);
  return ready?.status === "False" && ready.message.startsWith(notDeployed);
}

function mayShare(mine: Deployment, other: Entry): other is Deployment {
  if (isMalformed(other) || keyText(other.key) === keyText(mine.key)) return false;
  return ownsObjects(other) && !areDisjoint(mine.spec, other.spec);
}

function stays({ deletionTimestamp }: Deployment): boolean {
  return deletionTimestamp === undefined;
}

function takesObjectsAlong(deployment: Deployment): boolean {
  return !stays(deployment) && deployment.spec.delete && !deployment.spec.suspend;
}

/** A dry run leaves no objects behind, and poke-images creates none. */
function ownsObjects({ spec }: Deployment): boolean {
  return !spec.dryRun && spec.deployMode === "full-deploy";
}

/** However its URL is spelled. */
function sameRepository({ repo, spec }: Deployment, other: Deployment): boolean {
  return repo === undefined ? spec.source.url === other.spec.source.url : repo === other.repo;
}

/**
 * Whether they deploy different parts of one project, selected by tags or by directories: kluctl only looks for orphans
 * within the selection.
 */
function areDisjoint(one: DeploymentSpec, other: DeploymentSpec): boolean {
  const byDirs = [one, other].some((spec) => spec.includeDeploymentDirs.length + spec.excludeDeploymentDirs.length > 0);
  const byTags = [one, other].some((spec) => spec.includeTags.length + spec.excludeTags.length > 0);
  if (byDirs === byTags) return false; // a combination of both cannot be compared
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
