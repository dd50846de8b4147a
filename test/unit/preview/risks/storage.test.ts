import { expect, test } from "vitest";
import { changed, created, linesOf, objectOf, update } from "./find.ts";

const reclaim = (persistentVolumeReclaimPolicy: string) => ({ spec: { persistentVolumeReclaimPolicy } });
const retention = (persistentVolumeClaimRetentionPolicy: object, replicas = 3) => ({
  spec: { persistentVolumeClaimRetentionPolicy, replicas },
});
const mounting = (...claims: readonly string[]) => ({
  spec: {
    template: { spec: { volumes: claims.map((claimName) => ({ name: "v", persistentVolumeClaim: { claimName } })) } },
  },
});

test.each([
  [
    "/PersistentVolume",
    reclaim("Retain"),
    reclaim("Delete"),
    "its reclaim policy becomes Delete: its data is deleted with its claim",
  ],
  ["/PersistentVolume", reclaim("Delete"), reclaim("Retain"), undefined],
  ["/PersistentVolume", reclaim("Delete"), reclaim("Delete"), undefined],
  [
    "apps/StatefulSet",
    retention({}),
    retention({ whenDeleted: "Delete" }),
    "its volume claims are newly deleted when it is deleted",
  ],
  [
    "apps/StatefulSet",
    retention({ whenScaled: "Retain" }),
    retention({ whenScaled: "Delete" }),
    "its volume claims are newly deleted when it is scaled down",
  ],
  [
    "apps/StatefulSet",
    retention({ whenScaled: "Delete" }),
    retention({ whenScaled: "Delete" }, 2),
    "it is scaled down, which deletes the volume claims of the removed pods",
  ],
  ["apps/StatefulSet", retention({ whenScaled: "Retain" }), retention({ whenScaled: "Retain" }, 2), undefined],
  ["apps/Deployment", mounting("a", "b"), mounting("b", "c"), "its pods no longer use a volume claim that they used"],
  ["apps/Deployment", mounting("a"), mounting(), "its pods no longer use a volume claim that they used"],
  ["apps/Deployment", mounting("a"), mounting("b", "a"), undefined],
] as const)("a change of storage is described: %s %j → %j", (id, before, after, text) => {
  expect(linesOf(changed(id, before, after, { changes: [update("metadata.labels.a")] }))).toEqual(
    text === undefined ? [] : [`availability: ${text}`],
  );
});

test("what costs data comes before what costs pods", () => {
  const before = retention({ whenScaled: "Retain" });
  const after = retention({ whenScaled: "Delete", whenDeleted: "Delete" }, 1);
  expect(linesOf(changed("apps/StatefulSet", before, after))).toEqual([
    "availability: it is scaled down, which deletes the volume claims of the removed pods",
    "availability: its volume claims are newly deleted when it is deleted",
    "availability: its volume claims are newly deleted when it is scaled down",
    "availability: it is scaled down to one pod",
  ]);
});

test("a new volume has no data to lose", () => {
  expect(linesOf(created("/PersistentVolume", reclaim("Delete")))).toEqual([]);
});

test("where a state is missing, the changes are used", () => {
  const changes = [update("spec.persistentVolumeReclaimPolicy", "Delete", "Retain")];
  expect(linesOf(objectOf("/PersistentVolume", { changes }))).toHaveLength(1);
});
