/** A fixed set of a few thousand deliveries of `npm run fuzz`. */
import { expect, test } from "vitest";
import { playFuzz } from "../../dev/fuzz/play.ts";
import { uniqueName, useWorld } from "../support/world.ts";

test("every delivery is answered, and the server keeps running", async () => {
  const { cluster, redis, dir, kluctl } = await useWorld();

  const { sent, answers, findings } = await playFuzz({
    ...{ seed: 1, deliveries: 3_000, dir, kluctl },
    kubeconfig: cluster.kubeconfig,
    redisUrl: redis.url,
    namespace: uniqueName("fuzz"),
  });

  // Response times are checked only by the whole run, on a machine of its own.
  expect(findings.filter(({ isSlow }) => isSlow !== true)).toEqual([]);
  expect(sent).toBe(3_000);
  for (const status of ["202", "400", "401", "404", "405"]) expect([...answers.keys()]).toContain(status);
});
