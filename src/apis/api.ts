/**
 * The APIs whose resources are deployments. Each folder here translates one of them into the model and its status back;
 * one-api.ts watches, reads and writes the resources of any of them.
 */
import type { JsonObject } from "../kit/json.ts";
import type { KubeClient } from "../kube/client.ts";
import { collectionOf, isKindServed } from "../kube/kind.ts";
import type { Logger } from "../log.ts";
import type { AnyDeployment, DeploymentRef, Key, ManualKind, ManualResult, StatusPatch } from "../model.ts";
import type { Secrets } from "../ports.ts";
import type { ApiResource } from "./resource.ts";

export interface DeploymentApi extends Requests {
  /** In a sentence: `the legacy API`. */
  readonly name: string;
  /** `group/version` */
  readonly apiVersion: string;
  /** The resources, as messages name them. */
  readonly what: string;
  /** What it means, and what to do, if the cluster does not have the API. */
  readonly missing: string;
  /** The server works without the API, and checks once a minute whether the cluster has it. */
  readonly isOptional: boolean;
  /** What stands for the model's `finalizer` on its resources. */
  readonly finalizer: string;
  /** The field manager of writes; default: the server's own. */
  readonly fieldManager?: string | undefined;
  /** Why the hashes of objects that its own controller writes cannot be compared with ours, if so. */
  readonly foreignHashes?: string | undefined;
  /** Parses what the watch reports. */
  startParser(deps: ParserDeps): ResourceParser;
  /** Returns a function that translates a resource, and reads the objects that it references. */
  createReader(deps: ReaderDeps): ReadResource;
  /** Translates a resource with a JSON merge patch applied; absent: its requests cannot carry one. */
  override?(resource: unknown, patch: JsonObject): AnyDeployment | undefined;
  /** Translates a patch of the model's status; absent: the status is the model's. `known`: what was parsed last. */
  toStatus?(
    resource: ApiResource,
    patch: StatusPatch,
    ref: DeploymentRef,
    known: AnyDeployment | undefined,
  ): JsonObject;
  /** The status that records a request as handled, for requests whose annotation stays. */
  acknowledge?(resource: ApiResource, requestValue: string): JsonObject | undefined;
  /** The status that says that a resource of another API has taken over; `undefined` if it says so already. */
  handOver?(resource: ApiResource): JsonObject | undefined;
}

/** The requests of users, as `kluctl gitops`, kluctl's web UI, our command line and our page make them. */
export interface Requests {
  /** Those that can be made of its resources, besides suspending and resuming them. */
  readonly requests: readonly (ManualKind | "approve")[];
  /** Whether a suspended deployment can be reconciled. */
  readonly reconcilesSuspended: boolean;
  /** The patch that makes the request, one of `requests`. */
  requestPatch(kind: ManualKind, request: UserRequest): JsonObject;
  /** What came of the request; `undefined` while it is not handled. */
  answerTo(kind: ManualKind, request: UserRequest, deployment: AnyDeployment, resource: unknown): Answered | undefined;
}

/** Identifies a request: an API uses either its id or its time. */
export interface UserRequest {
  readonly id: string;
  /** RFC 3339. */
  readonly at: string;
  /** The patch is then rejected if the resource has changed since it was read. */
  readonly resourceVersion?: string | undefined;
}

/** Empty if the API only records that a request was handled. */
export type Answered = Partial<Pick<ManualResult, "commandError" | "reconcileId" | "startTime">>;

export type FindDeployment = (key: Key) => AnyDeployment | undefined;
export type ReadResource = (resource: unknown, known?: FindDeployment) => Promise<AnyDeployment | undefined>;

export interface ReaderDeps {
  readonly client: Pick<KubeClient, "request">;
  /** Without it, Secrets are not read, only named. */
  readonly secrets?: Pick<Secrets, "get"> | undefined;
}

export interface ParserDeps {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly retryMs?: number | undefined;
  /** Called with a predicate for the resources that have to be parsed again, because what they reference changed. */
  readonly onChange: (concerns: (resource: unknown) => boolean) => void;
}

export interface ResourceParser {
  /** From memory; `pending` until it is known what the resource references. `known`: what was parsed last. */
  parse(resource: unknown, known: FindDeployment): AnyDeployment | "pending" | undefined;
  /** What it remembers of referenced objects; absent if resources reference nothing. */
  readonly references?: { refresh(): Promise<void>; stop(): Promise<void> } | undefined;
}

/** The field manager of kluctl's own tools, so that theirs and ours are one owner of the fields. */
export const askingManager = "kluctl";

export function suspendPatch(suspend: boolean): JsonObject {
  return { spec: { suspend: suspend || null } };
}

/** Approves the objects that render to this hash; rejected if the resource has changed since the user saw it. */
export function approvePatch(objectsHash: string, resourceVersion: string): JsonObject {
  return { metadata: { resourceVersion }, spec: { manualObjectsHash: objectsHash } };
}

const plural = "kluctldeployments";

/** `gitops.kluctl.io` */
export function groupOf({ apiVersion }: Pick<DeploymentApi, "apiVersion">): string {
  return apiVersion.replace(/\/.*/, "");
}

export function versionPath({ apiVersion }: Pick<DeploymentApi, "apiVersion">): string {
  return `/apis/${apiVersion}`;
}

export function collectionPath(api: Pick<DeploymentApi, "apiVersion">, namespace?: string): string {
  return collectionOf({ ...api, plural }, namespace);
}

export function resourcePath(api: Pick<DeploymentApi, "apiVersion">, { namespace, name }: Key): string {
  return `${collectionPath(api, namespace)}/${encodeURIComponent(name)}`;
}

export async function isServed(client: Pick<KubeClient, "request">, api: DeploymentApi): Promise<boolean> {
  return isKindServed(client, { ...api, plural });
}
