/** Compares the keys of a Secret: all that may be shown of its values. Pure. */
import type { ResultObject } from "../model.ts";
import type { PreviewObject } from "../model/report.ts";
import { readSecret } from "../redact/secrets-of.ts";

type SecretKeys = NonNullable<PreviewObject["secretKeys"]>;

export function secretKeysOf({ rendered, remote, applied }: ResultObject, action: PreviewObject["action"]): SecretKeys {
  const before = contentsOf(action === "new" ? undefined : remote);
  const after = contentsOf(action === "deleted" ? undefined : (applied ?? rendered));
  const keys = [...new Set([...before.keys(), ...after.keys()])].sort();
  return keys.map((key) => ({ key, change: changeOf(before.get(key), after.get(key)) }));
}

function contentsOf(json: string | undefined): ReadonlyMap<string, Buffer> {
  return (json === undefined ? undefined : readSecret(json)) ?? new Map<string, Buffer>();
}

function changeOf(before: Buffer | undefined, after: Buffer | undefined): SecretKeys[number]["change"] {
  if (before === undefined) return "added";
  if (after === undefined) return "removed";
  return before.equals(after) ? "unchanged" : "changed";
}
