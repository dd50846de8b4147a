/**
 * Ids of ours: UUIDs, as everybody expects them, but of a version that kluctl's controller makes none of. So it can be told
 * from a status who wrote it: the name of the writer is the same, and a look that is left out takes no Lease.
 */
import { randomUUID } from "node:crypto";

const versionAt = 14;
const ourVersion = "8";

export function newOurId(): string {
  const id = randomUUID();
  return id.slice(0, versionAt) + ourVersion + id.slice(versionAt + 1);
}

export function isOurId(id: string): boolean {
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(id) && id[versionAt] === ourVersion;
}
