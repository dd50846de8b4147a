/** How a configuration says where previews are rendered. */
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config.ts";

const token = "0123456789abcdef01234567";
const parse = (runner: object, isolation?: string) =>
  parseConfig({ env: {}, file: { preview: { ...(isolation && { isolation }), runner } } }).preview.runner;

test("a runner is named by host and port, or by the path of its socket", () => {
  expect(parse({ address: "towline-previews:8092", token }, "auto").address).toEqual({
    host: "towline-previews",
    port: 8092,
  });
  expect(parse({ address: "unix:/run/previews/socket", token }, "auto").address).toEqual({
    path: "/run/previews/socket",
  });
  expect(parse({ bindAddress: "127.0.0.1:0" }).bindAddress).toEqual({ host: "127.0.0.1", port: 0 });
  expect(parse({ bindAddress: "unix:/socket" }).bindAddress).toEqual({ path: "/socket" });
  expect(parse({})).toEqual({ address: undefined, token: undefined, bindAddress: { port: 8092 } });
});

test("an invalid runner, or one that would render without isolation, is refused with the reason", () => {
  for (const address of ["towline-previews", "http://previews:1", "unix:relative", ":8092"]) {
    expect(() => parse({ address, token }, "auto")).toThrow('must be an address like "towline-previews:8092"');
  }
  expect(() => parse({ bindAddress: "0" })).toThrow("must be an address like");
  expect(() => parse({ address: "previews:8092", token }, "off")).toThrow("preview.isolation");
  expect(() => parse({ address: "previews:8092" }, "auto")).toThrow("set it or tokenFile");
  expect(() => parse({ token: "short" })).toThrow("24 characters or more");
});
