import { expect, test } from "vitest";
import type { ReconcileRequest } from "../../../src/model.ts";
import { gatherRequests } from "../../../src/requests/gather.ts";
import { silentLog } from "../../support/fakes.ts";

test("what Redis refuses while the server stops is queued once more, also if a later batch was accepted before", async () => {
  const request = (name: string): ReconcileRequest => ({
    ...{ kind: "reconcile", deployment: { namespace: "shop", name }, cause: "change" },
  });
  const queued: string[] = [];
  const first = Promise.withResolvers<void>();
  const [firstBegan, secondEnded] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let batches = 0;
  const gathered = gatherRequests({
    async enqueue(requests) {
      const batch = ++batches;
      firstBegan.resolve();
      if (batch === 1) await first.promise;
      queued.push(...requests.map(({ deployment }) => deployment.name));
      if (batch === 2) secondEnded.resolve();
    },
    refused: "",
    log: silentLog,
  });
  gathered.add(request("slow"));
  await firstBegan.promise;
  gathered.add(request("quick"));
  await secondEnded.promise;

  const stopping = gathered.stop();
  // Nothing shows that it waits: without that, it would have ended after some turns of the event loop.
  await Promise.race([stopping, new Promise((resolve) => setImmediate(resolve))]);
  first.reject(new Error("no connection"));
  await stopping;

  expect(queued).toEqual(["quick", "slow"]);
});
