/** Health checks: which objects have to be healthy before a deployment counts as Ready. */
import type { JsonObject } from "../kit/json.ts";

/** One entry of the annotation `towline.dev/health-checks`. */
export interface HealthCheck {
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent: the deployment's own namespace or, without a name, every namespace. */
  readonly namespace?: string | undefined;
  /** Absent: all objects of this kind that the deployment has applied. */
  readonly name?: string | undefined;
  /** CEL expressions; without `current`, the object's kind decides. */
  readonly current?: string | undefined;
  readonly inProgress?: string | undefined;
  readonly failed?: string | undefined;
}

/** One object by its name, or all objects of a kind with a label. */
export interface ObjectQuery {
  readonly apiVersion: string;
  readonly kind: string;
  /** Ignored for kinds without namespaces. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** `name=value`; only without `name`. */
  readonly label?: string | undefined;
}

/** `problem`: nothing is known about the objects; `isPermanent`: a person has to change something first. */
export type QueriedObjects =
  | { readonly objects: readonly JsonObject[]; readonly problem?: undefined }
  | { readonly problem: string; readonly isPermanent: boolean };

export interface ObjectHealth {
  /** `ConfigMap shop/settings`. */
  readonly object: string;
  readonly state: "current" | "in-progress" | "failed";
  /** Why it is not current, without any value of the object. */
  readonly why?: string | undefined;
}

/** What the health checks of a deployment found. */
export type Health =
  | { readonly kind: "healthy" }
  /** `againMs`: when to check again, in milliseconds from now. */
  | { readonly kind: "waiting"; readonly message: string; readonly againMs: number }
  | { readonly kind: "unhealthy"; readonly message: string }
  | { readonly kind: "invalid"; readonly message: string };
