import fc from "fast-check";
import { expect, test } from "vitest";
import { ProxyRequest, ProxyResponse, ResolveResponse } from "../../../src/overrides/messages.ts";

test("messages have the format that kluctl reads and writes", () => {
  const auth = { authError: "" };
  expect(ProxyRequest.encode({ auth }).toString("hex")).toBe("0a022200");
  const request = { auth: { pubKeyHash: "ab" }, request: { repoKey: "git://h/p" } };
  expect(ProxyRequest.encode(request).toString("hex")).toBe("0a042a026162120b0a096769743a2f2f682f70");
  const response = { response: { artifact: Buffer.from([1, 2]) } };
  expect(ProxyResponse.encode(response).toString("hex")).toBe("120412020102");
  expect(ProxyResponse.decode(Buffer.from("120412020102", "hex"))).toEqual(response);
  expect(ProxyRequest.decode(Buffer.from("0a022200", "hex"))).toEqual({ auth });
});

test("a written message is read back, large or small", () => {
  const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
  const messages = fc.record({
    auth: maybe(fc.record({ pubKey: maybe(bytes), authError: maybe(fc.string()), controllerSecret: maybe(bytes) })),
    response: maybe(fc.record({ error: maybe(fc.string({ maxLength: 300 })), artifact: maybe(bytes) })),
  });
  const withoutUndefined = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
  fc.assert(
    fc.property(messages, (message) => {
      const read = ProxyResponse.decode(ProxyResponse.encode(message));
      expect(withoutUndefined(read)).toEqual(withoutUndefined(message));
    }),
  );
  const artifact = Buffer.alloc(3_000_000, 7);
  expect(ResolveResponse.decode(ResolveResponse.encode({ artifact })).artifact?.equals(artifact)).toBe(true);
});

test("fields of later versions are skipped, and invalid bytes give an error", () => {
  const later = Buffer.from("0801" + "120412020102" + "4d01020304" + "7a0161", "hex");
  expect(ProxyResponse.decode(later).response?.artifact).toEqual(Buffer.from([1, 2]));
  expect(() => ProxyResponse.decode(Buffer.from("12ff", "hex"))).toThrow(/not a message/);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        ProxyResponse.decode(Buffer.from(bytes));
      } catch (error) {
        expect((error as Error).message).toMatch(/not a message/);
      }
    }),
  );
});
