import { expect, onTestFinished, test } from "vitest";
import { startHold } from "../../../src/kube/lease-hold.ts";
import { silentLog } from "../../support/fakes.ts";

test("work that starts under a Lease is notified of the last renewal only if it is recent", async () => {
  let now = 0;
  const lease = { metadata: { namespace: "shop", name: "towline-prod" }, spec: { holderIdentity: "us" } };
  const held = startHold({
    store: { read: () => Promise.resolve(lease), write: (written) => Promise.resolve(written) },
    lease,
    durationMs: 15_000,
    log: silentLog,
    now: () => now,
    startedAt: 0,
    onReleased: () => undefined,
  });
  onTestFinished(() => held.release());
  let told = 0;
  const listen = () => held.onRenewed(() => told++)();

  listen();
  expect(told).toBe(1);
  now = 5_000;
  listen();
  expect(told).toBe(1);
});
