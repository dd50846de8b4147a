/** What a server remembers of a reconciliation, and whether that proves anything about the next check. */
import type { AppliedKind, Deployment } from "../model.ts";
import type { LoopFindings } from "../reconcile/loop.ts";
import { type GitPlace, inputsOf } from "../model/project-inputs.ts";
import type { LastSeen } from "./comparing.ts";
import { placeText, type Queries } from "./queries.ts";
import { whySettings } from "./settings.ts";

/** Why a check is not skipped; a label of the metric. */
export type CheckReason =
  | "not-seen" // this server has not reconciled it yet, or its state was changed by others since
  | "requested" // it was requested, or it is not ready
  | "due" // a full reconciliation, a deploy or a validation
  | "settings" // the deployment's settings make evidence impossible
  | "project" // the project has inputs that may change anywhere, or renders differently each time
  | "objects" // an object that it applied has changed
  | "watch" // its objects are not watched
  | "secrets"
  | "refs"
  | "cluster" // another Kubernetes version, other kinds or another schema
  | "kluctl"; // another version or another binary

/** The inputs right before kluctl ran. */
export interface InputsBefore {
  readonly at: number;
  readonly secrets: string | undefined;
  readonly cluster: string | undefined;
  readonly kluctl: string | undefined;
  /** The commits of the places that the project is known to include. */
  readonly heads: ReadonlyMap<string, string> | undefined;
}

/** The result of one reconciliation. */
export interface Found extends LoopFindings {
  readonly deployment: Deployment;
  readonly signal: AbortSignal;
}

/** What this server remembers about a deployment it has reconciled. */
export interface Known extends LastSeen {
  readonly discriminator: string;
  readonly impersonate: string | undefined;
  readonly kinds: readonly AppliedKind[];
  readonly includes: readonly GitPlace[];
  readonly evidence: Evidence | { readonly reason: CheckReason; readonly why: string };
}

export interface Evidence {
  readonly reason?: undefined;
  readonly at: number;
  readonly commit: string;
  /** When the remote was queried for this commit, or later. */
  readonly commitAt: number;
  readonly secrets: string;
  readonly cluster: string;
  readonly kluctl: string;
  readonly heads: ReadonlyMap<string, string>;
  /**
   * It reads nothing of its source outside its directory. False at the root of a repository and for sources other than
   * git.
   */
  readonly isSelfContained: boolean;
  /** The result of the last validation follows from the objects' recorded versions. */
  readonly validated: boolean;
}

/** The evidence that the reconciliation left, or why there is none. */
export async function collectEvidence(
  queries: Pick<Queries, "findUnsteady">,
  before: InputsBefore | undefined,
  found: Found,
  known: Omit<Known, "evidence">,
): Promise<Known["evidence"]> {
  const { deployment, rendered, identity, clean, deployed, checkout, validated } = found;
  const settings = whySettings(deployment, identity);
  if (settings !== undefined) return { reason: "settings", why: settings };
  const inputs = inputsOf(rendered.document);
  if (inputs.reason !== undefined) return { reason: "project", why: inputs.reason };
  if (deployed || !clean) return { reason: "requested", why: "the last reconciliation changed or reported something" };
  if (before === undefined) return { reason: "requested", why: "the last reconciliation was requested" };
  if (!known.complete) return { reason: "objects", why: "kluctl did not report all of its objects" };
  if (before.secrets === undefined) return { reason: "secrets", why: "could not read its Secrets" };
  if (before.cluster === undefined) return { reason: "cluster", why: "could not read the cluster's API resources" };
  if (before.kluctl === undefined) return { reason: "kluctl", why: "kluctl is not available" };
  const places = inputs.includes.map(placeText);
  if (before.heads === undefined || places.some((place) => !before.heads?.has(place))) {
    return { reason: "refs", why: "the project's includes were unknown before it was rendered" };
  }
  const commits = new Map(places.map((place) => [place, before.heads?.get(place) ?? ""]));
  const { unsteady, isSelfContained } = await queries.findUnsteady(found, commits, inputs);
  if (unsteady !== undefined) return { reason: "project", why: unsteady };
  return {
    at: before.at,
    commit: checkout.commit,
    commitAt: before.at,
    secrets: before.secrets,
    cluster: before.cluster,
    kluctl: before.kluctl,
    heads: commits,
    isSelfContained,
    validated,
  };
}
