import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { stringify } from "yaml";
import { expect, onTestFinished, test } from "vitest";
import { createObjects } from "../../../src/kube/objects.ts";
import { newRun } from "../../support/fake-kluctl.ts";

/** An untrusted API server, which may answer anything. */
async function useStranger(answer: RequestListener) {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const kubeconfig = stringify({
    ...{ apiVersion: "v1", kind: "Config", "current-context": "theirs", users: [{ name: "me", user: {} }] },
    contexts: [{ name: "theirs", context: { cluster: "theirs", user: "me" } }],
    clusters: [{ name: "theirs", cluster: { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } }],
  });
  const ref = { kind: "ConfigMap", namespace: "shop", name: "old" };
  const doomed = { ref, apiVersion: "v1", kind: "ConfigMap", name: "old", namespace: "shop", uid: "1" };
  const objects = createObjects({ kubeconfigFor: () => kubeconfig });
  return { remove: () => objects.delete([doomed], newRun({}), { dryRun: false }, new AbortController().signal) };
}

test("reading an endless response is given up, and not repeated", async () => {
  let asked = 0;
  const stranger = await useStranger((_, response) => {
    asked++;
    const more = () => {
      while (response.write(" ".repeat(1_000_000)));
    };
    response.on("drain", more);
    more();
  });
  const before = process.memoryUsage().rss;

  expect(await stranger.remove()).toMatchObject([{ message: expect.stringContaining("is larger than 16 MiB") }]);
  expect(asked).toBe(1);
  expect(process.memoryUsage().rss - before).toBeLessThan(300_000_000);
});

test("its error message is truncated to a readable length", async () => {
  const stranger = await useStranger((_, response) => {
    response.writeHead(403).end(JSON.stringify({ message: "no".repeat(1_000_000) }));
  });

  const [error] = await stranger.remove();
  expect(error?.message).toMatch(/^GET \/api\/v1: 403 nono/);
  expect(error?.message.length).toBeLessThan(21_000);
});
