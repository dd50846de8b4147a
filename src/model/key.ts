/** What names a deployment. */

/** Names one KluctlDeployment. */
export interface Key {
  readonly namespace: string;
  readonly name: string;
}

/** `namespace/name`, as people write it and as queues and logs carry it. */
export function keyText(key: Key): string {
  return `${key.namespace}/${key.name}`;
}
