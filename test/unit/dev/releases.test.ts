import { basename } from "node:path";
import { expect, test } from "vitest";
import { findChecksum, findRelease, readTable } from "../../../dev/release/releases.ts";
import { tools } from "../../../dev/tool-table.ts";

const [one, other] = ["1".repeat(64), "2".repeat(64)];

test("each published program has the version that would be built", () => {
  const built = new Map(Object.values(tools).map(({ name, build }) => [name as string, build?.version]));
  for (const [name, { version, platforms }] of Object.entries(readTable())) {
    expect([name, version]).toEqual([name, built.get(name)]);
    for (const { url } of Object.values(platforms)) expect(url).toContain(version);
  }
});

test("only a release for the platform, with a checksum, is used", () => {
  const url = "https://example.com/v1/tool.tar.gz";
  const table = {
    tool: {
      version: "1",
      checksums: "{url}.sha256",
      platforms: { "linux-x64": { url, sha256: one }, "linux-arm64": { url } },
    },
  };
  expect(findRelease(table, "tool", "linux-x64")).toEqual({ version: "1", url, sha256: one });
  expect(findRelease(table, "tool", "linux-arm64")).toBeUndefined();
  expect(findRelease(table, "tool", "win32-x64")).toBeUndefined();
  expect(findRelease(table, "other", "linux-x64")).toBeUndefined();
});

test.each([
  ["a list", `${other}  tool_linux_arm64.tar.gz\n${one}  tool_linux_amd64.tar.gz\n`],
  ["a list in binary mode, with paths", `${other} *./dist/other\n${one} *./dist/tool_linux_amd64.tar.gz\n`],
  ["nothing but the checksum", `${one}\n`],
  [
    "GitHub's description of a release",
    JSON.stringify({ assets: [{ name: "other" }, { name: "tool_linux_amd64.tar.gz", digest: `sha256:${one}` }] }),
  ],
])("a checksum is found in %s", (_, published) => {
  expect(findChecksum(published, basename("https://example.com/tool_linux_amd64.tar.gz"))).toBe(one);
});

test.each([
  ["a list without the file", `${one}  other\n`],
  ["a list of two checksums without names", `${one}\n${other}\n`],
  ["a page", "<html>Not found</html>"],
  ["a release without digests", JSON.stringify({ assets: [{ name: "tool", digest: null }] })],
  ["nothing", ""],
])("no checksum is found in %s", (_, published) => {
  expect(findChecksum(published, "tool")).toBeUndefined();
});
