/** Objects in the cluster that deployments have applied. */
import type { ObjectVersion } from "./object-version.ts";
import type { ObjectRef } from "./result.ts";

/** An object to be deleted. */
export interface Doomed {
  /** The reference in kluctl's result. */
  readonly ref: ObjectRef;
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uid: string;
}

/** A kind, and the namespaces in which a deployment has objects of it; `""` stands for cluster-scoped objects. */
export interface AppliedKind {
  readonly group: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespaces: readonly string[];
}

/** The kinds that a deployment has applied, and the user it applied them as. */
export interface AppliedScope {
  readonly impersonate?: string | undefined;
  readonly kinds: readonly AppliedKind[];
}

/** A change of an object with a discriminator. */
export interface AppliedChange {
  readonly discriminator: string;
  readonly id: string;
  readonly deleted: boolean;
}

/** The versions of a deployment's objects by id, or why they are unknown. */
export type AppliedVersions =
  | { readonly objects: ReadonlyMap<string, ObjectVersion>; readonly unknown?: undefined }
  | { readonly objects?: undefined; readonly unknown: string };
