import { expect, test } from "vitest";
import { isDigest, isTag, parseOciUrl } from "../../../src/model/oci-url.ts";

test.for<[string, string, string]>([
  ["oci://ghcr.io/org/app", "ghcr.io", "org/app"],
  ["oci://registry.test:5000/app/", "registry.test:5000", "app"],
  ["oci://localhost/app", "localhost", "app"],
  ["oci://[::1]:5000/app", "[::1]:5000", "app"],
  ["oci://docker.io/org/app", "index.docker.io", "org/app"],
  ["oci://org/app", "index.docker.io", "org/app"],
  ["oci://app", "index.docker.io", "library/app"],
])("%s is %s and %s", ([url, registry, repository]) => {
  expect(parseOciUrl(url)).toEqual({ registry, repository });
});

test.for([
  "https://ghcr.io/org/app",
  "oci://",
  "oci://ghcr.io",
  "oci://ghcr.io/",
  "oci://ghcr.io/org/app:v1",
  "oci://ghcr.io/org/app@sha256:0",
  "oci://me:hunter2@ghcr.io/org/app",
  "oci://ghcr.io/Org/app",
  "oci://ghcr.io/org//app",
  "oci://ghcr.io/org/../app",
  "oci://ghcr.io/org/app?x=1",
  "oci://ghcr.io:99999/org/app",
  "oci://-x.test/org/app",
  "oci://a b.test/org/app",
  "oci://ghcr.io/org/a\npp",
])("%j is not the URL of an artifact", (url) => {
  expect(parseOciUrl(url)).toBeUndefined();
});

test("valid tags and digests are distinguished from invalid ones", () => {
  expect(["latest", "v1.2_3-rc", "_x"].map(isTag)).toEqual([true, true, true]);
  expect(["", "a/b", "a:b", "a b", "x".repeat(129)].map(isTag)).toEqual(Array(5).fill(false));
  expect(isDigest(`sha256:${"0f".repeat(32)}`)).toBe(true);
  expect(["", "sha256:0f", `sha512:${"0f".repeat(32)}`, `sha256:${"0F".repeat(32)}`].some(isDigest)).toBe(false);
});
