import { createServer, connect } from "node:tls";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { X509Certificate } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { createKeyMaterial, problemOf } from "../../../src/overrides/key-material.ts";

const now = new Date("2026-01-01T00:00:00Z");

test("the certificate is valid for clients that trust its authority, under each name that they use", async () => {
  const { ca, cert, key } = createKeyMaterial(new Date());
  const server = createServer({ cert, key }, (socket) => socket.end()).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  for (const servername of ["localhost", "source-override"]) {
    const socket = connect({ port, host: "127.0.0.1", ca, servername });
    await once(socket, "secureConnect");
    expect(socket.authorized).toBe(true);
    socket.destroy();
  }
  const stranger = connect({ port, host: "127.0.0.1", ca, servername: "example.com" });
  await expect(once(stranger, "secureConnect")).rejects.toThrow(/altnames/);
  const other = connect({ port, host: "127.0.0.1", ca: createKeyMaterial(now).ca, servername: "localhost" });
  await expect(once(other, "secureConnect")).rejects.toThrow();
  expect(new X509Certificate(cert).checkIP("127.0.0.1")).toBe("127.0.0.1");
  expect(new X509Certificate(cert).checkIP("::1")).toBeDefined();
});

test("unusable key material is reported, and usable material is not", () => {
  const material = createKeyMaterial(now);
  const other = createKeyMaterial(now);
  expect(problemOf(material, now)).toBeUndefined();
  expect(problemOf(material, new Date("2035-12-15T00:00:00Z"))).toMatch(/expires at 2036-01-01/);
  expect(problemOf({ ...material, key: other.key }, now)).toMatch(/does not match its certificate/);
  expect(problemOf({ ...material, ca: other.ca }, now)).toMatch(/not signed by its authority/);
  expect(problemOf({ ...material, cert: "no certificate" }, now)).toMatch(/cannot be read/);
  expect(problemOf({ ...material, controllerSecret: Buffer.alloc(3) }, now)).toMatch(/too short/);
  expect(problemOf({ ...material, cert: material.ca }, now)).toBeDefined();
});
