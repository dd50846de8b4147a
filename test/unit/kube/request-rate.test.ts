import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { createKubeClient } from "../../../src/kube/client.ts";
import { createRequestRate } from "../../../src/kube/request-rate.ts";

test("after a burst, requests are sent at the configured rate, in the order in which they came", async () => {
  const from = performance.now();
  // All requests come at the same time, however long a busy machine takes to send them.
  let moment: number | undefined = from;
  const rate = createRequestRate(
    () => 100,
    () => moment ?? performance.now(),
  );
  const order: number[] = [];
  const turns = Array.from({ length: 210 }, async (_, i) => {
    const ms = await rate.turn(undefined);
    order.push(i);
    return ms;
  });
  moment = undefined;
  const waited = await Promise.all(turns);
  expect(performance.now() - from).toBeGreaterThan(90); // ten of them, 10 ms apart
  expect(order).toEqual(Array.from({ length: 210 }, (_, i) => i));
  expect(waited.at(-1)).toBeGreaterThan(80);
});

test("an aborted request that waits is rejected", async () => {
  const rate = createRequestRate(() => 1);
  await Promise.all([rate.turn(undefined), rate.turn(undefined)]);
  const leaving = new AbortController();
  const turn = rate.turn(leaving.signal);
  leaving.abort();
  await expect(turn).rejects.toThrow("aborted");
});

test("while the API server asks to wait, only requests for Leases are sent", async () => {
  const asked: string[] = [];
  const server = createServer((req, res) => {
    asked.push(req.url ?? "");
    if (asked.length === 1) res.writeHead(429, { "retry-after": "1" }).end("{}");
    else res.end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const text = stringify({
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server: address, "insecure-skip-tls-verify": true } }],
    users: [{ name: "u", user: { token: "t" } }],
  });
  let heldBack = 0;
  const refused = Promise.withResolvers<void>();
  const observe = {
    request: (_method: string, status: number) => void (status === 429 && refused.resolve()),
    heldBack: (seconds: number) => void (heldBack += seconds),
  };
  const client = createKubeClient({ text, mostPerSecond: () => 1_000, observe });
  onTestFinished(() => {
    client.close();
    server.close();
  });

  const first = client.request({ method: "GET", path: "/first" });
  await refused.promise;
  const lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b";
  const second = client.request({ method: "GET", path: "/second" });
  await client.request({ method: "GET", path: lease });
  await Promise.all([first, second]);
  const others = asked.filter((url) => url !== lease);
  expect(others).toHaveLength(3);
  expect(asked.slice(0, 2)).toEqual(["/first", lease]);
  expect(heldBack).toBeGreaterThan(0.5);
});
