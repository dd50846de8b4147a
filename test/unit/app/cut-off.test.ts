/** When a preview runner may report that it cannot reach any network. */
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import type { NetworkInterfaceInfo } from "node:os";
import { expect, onTestFinished, test } from "vitest";
import { isCutOff } from "../../../src/app/cut-off.ts";

const patienceMs = 100;
const address = { address: "", netmask: "", mac: "", cidr: null, family: "IPv4" } as const;
const loopback: NetworkInterfaceInfo[] = [{ ...address, internal: true }];
const ethernet: NetworkInterfaceInfo[] = [{ ...address, internal: false }];

test("a runner that has only the loopback interface is cut off", async () => {
  expect(await isCutOff({ env: {}, interfaces: { lo: loopback }, patienceMs })).toBe(true);
  expect(await isCutOff({ env: {}, interfaces: {}, patienceMs })).toBe(true);
});

test("a machine with a network interface is not cut off, whatever responds there", async () => {
  expect(await isCutOff({ env: {}, interfaces: { lo: loopback, eth0: ethernet }, patienceMs })).toBe(false);
});

test("a pod that gets any answer from the API server is not cut off", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const env = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(port) };
  const refused = { ...env, KUBERNETES_SERVICE_PORT: "1" };

  expect(await isCutOff({ env, interfaces: { eth0: ethernet }, patienceMs })).toBe(false);
  expect(await isCutOff({ env: refused, interfaces: { eth0: ethernet }, patienceMs })).toBe(false);
});
