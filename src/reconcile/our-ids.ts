/**
 * Generates ids that identify Towline as the writer of a status: UUIDs of a version that kluctl's controller never
 * generates. Nothing else does: both use the same field manager name, and a skipped reconciliation takes no Lease.
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
