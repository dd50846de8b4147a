import { expect, test } from "vitest";
import { parseChallenges } from "../../../src/source/challenge.ts";

test("a challenge has a scheme and parameters, quoted or not", () => {
  expect(
    parseChallenges('Bearer realm="https://auth.test/token",service="a, b",scope="repository:x:pull,push"'),
  ).toEqual([
    {
      scheme: "bearer",
      parameters: { realm: "https://auth.test/token", service: "a, b", scope: "repository:x:pull,push" },
    },
  ]);
  expect(parseChallenges("BASIC Realm=registry")).toEqual([{ scheme: "basic", parameters: { realm: "registry" } }]);
  expect(parseChallenges('Basic realm="a \\"b\\""')).toEqual([{ scheme: "basic", parameters: { realm: 'a "b"' } }]);
});

test("several challenges in one header are separated", () => {
  const header = 'Negotiate, Bearer realm="https://auth.test/token", service="x", Basic realm="y"';
  expect(parseChallenges(header)).toEqual([
    { scheme: "negotiate", parameters: {} },
    { scheme: "bearer", parameters: { realm: "https://auth.test/token", service: "x" } },
    { scheme: "basic", parameters: { realm: "y" } },
  ]);
});

test.for([undefined, "", " , ", "=", '"', `Basic realm="${"\\".repeat(20_000)}`, "a=".repeat(9_000)])(
  "an invalid challenge is ignored quickly",
  (header) => {
    expect(parseChallenges(header).filter(({ parameters }) => "realm" in parameters)).toEqual([]);
  },
);
