import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import { expect, onTestFinished, test, vi } from "vitest";
import { createDeployments } from "../../../src/apis/deployments.ts";
import { kluctlApi } from "../../../src/apis/kluctl/api.ts";
import type { KubeClient } from "../../../src/kube/client.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

function resource(resourceVersion: string, interval: string, generation: number) {
  const metadata = { namespace: "shop", name: "prod", uid: "uid-prod", resourceVersion, generation };
  return { metadata, spec: { interval, source: { git: { url: "https://git.test/org/shop.git" } } } };
}

test("after the API server was restored from a backup, its older versions are what is true", async () => {
  const streams: PassThrough[] = [];
  const state = { object: resource("900", "5m", 3) };
  const written: unknown[] = [];
  const client: Pick<KubeClient, "request" | "list" | "stream"> = {
    request({ body }) {
      written.push((body as { metadata: { resourceVersion: string } }).metadata.resourceVersion);
      return Promise.resolve(state.object);
    },
    list: () => Promise.resolve({ items: [state.object], resourceVersion: "1" }),
    stream({ signal }) {
      const stream = new PassThrough();
      streams.push(stream);
      signal.addEventListener("abort", () => stream.destroy());
      return Promise.resolve(stream as unknown as IncomingMessage);
    },
  };
  const deployments = createDeployments({
    ...{ apis: [kluctlApi], client: client as KubeClient, controllerName: "towline", log: silentLog, retryMs: 1 },
  });
  onTestFinished(() => deployments.stop());
  await deployments.start(() => true);
  const key = { namespace: "shop", name: "prod" };
  await deployments.patchStatus({ key, uid: "uid-prod" }, { observedCommit: "a" });
  await vi.waitFor(() => expect(streams).toHaveLength(1), patience);

  const late = { type: "MODIFIED", object: resource("800", "9m", 2) };
  streams[0]!.write(`${JSON.stringify(late)}\n`);
  state.object = resource("400", "7m", 1);
  streams[0]!.write(`${JSON.stringify({ type: "ERROR", object: { code: 410, message: "too old" } })}\n`);
  await vi.waitFor(() => expect(deployments.all()).toMatchObject([{ spec: { intervalMs: 420_000 } }]), patience);
  await deployments.patchStatus({ key, uid: "uid-prod" }, { observedCommit: "b" });
  expect(written).toEqual(["900", "400"]);
});
