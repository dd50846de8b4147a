/** What names a deployment, and whom it acts as. */

/** Names one KluctlDeployment. */
export interface Key {
  readonly namespace: string;
  readonly name: string;
}

/** `namespace/name`, as people write it and as queues and logs carry it. */
export function keyText(key: Key): string {
  return `${key.namespace}/${key.name}`;
}

/** What the API server calls a service account. A blank name would mean the login's own rights, so it is an error. */
export function serviceAccountUser({ namespace, name }: Key): string {
  if (name.trim() === "") throw new Error("a service account without a name cannot be impersonated");
  return `system:serviceaccount:${namespace}:${name}`;
}
