/** The name of a deployment, and the service account it acts as. */

/** Identifies one KluctlDeployment. */
export interface Key {
  readonly namespace: string;
  readonly name: string;
}

/** `namespace/name`, as users write it and as it appears in queues and logs. */
export function keyText(key: Key): string {
  return `${key.namespace}/${key.name}`;
}

/**
 * The API server's user name of a service account. Throws if the name is blank: impersonation would fall back to the
 * server's own rights.
 */
export function serviceAccountUser({ namespace, name }: Key): string {
  if (name.trim() === "") throw new Error("a service account without a name cannot be impersonated");
  return `system:serviceaccount:${namespace}:${name}`;
}
