import { expect, test } from "vitest";
import { isDowngrade, startsToMove } from "../../../../src/preview/risks/images.ts";

test.each([
  ["web:1.5.0", "web:1.4.2", true],
  ["web:1.4.2", "web:1.5.0", false],
  ["web:1.4.2", "web:1.4.2", false],
  ["web:1.10.0", "web:1.9.0", true],
  ["web:v2", "web:v1", true],
  ["web:v2.0", "web:1.9", true],
  ["web:1.25.3", "web:1.25", false], // which may be the same
  ["web:1.25", "web:1.25.3", false],
  ["web:1.25.3", "web:1.24", true],
  ["web:1.5.0-alpine", "web:1.4.0-alpine", true],
  ["web:1.5.0-alpine", "web:1.5.0-slim", false],
  ["web:2.0.0", "web:2.0.0-rc.1", true],
  ["web:2.0.0-rc.2", "web:2.0.0-rc.1", true],
  ["web:2.0.0-rc1", "web:2.0.0-beta3", true],
  ["web:2.0.0-rc1", "web:2.0.0", false],
  ["localhost:5000/web:1.5.0", "localhost:5000/web:1.4.0", true],
  ["localhost:5000/web", "localhost:4000/web", false],
  ["web:1.5.0@sha256:aa", "web:1.4.0@sha256:bb", true],
  ["web:1.5.0", "api:1.4.0", false],
  ["web:20240102", "web:20240101", true],
  ["web:20240102", "web:1.0.0", false], // another scheme
  ["web:202401151200", "web:20240116", false], // a later day, without its time
  ["web:202401151200", "web:202401141200", true],
  ["web:2024.2.0", "web:2024.1.0", true],
  ["web:1234567", "web:0123456", false], // hashes of commits
  ["web:987654-x", "web:123456-x", false],
  ["web:98765", "web:12345", true],
  ["web:5f3c2d1", "web:4f3c2d1", false],
  ["web:latest", "web:1.0.0", false],
  ["web:1.0.0", 5, false],
  [undefined, "web:1.0.0", false],
  [`web:${"1".repeat(5_000)}`, "web:1", false],
])("from %s to %s is a downgrade: %s", (before, after, downgrade) => {
  expect(isDowngrade(before, after)).toBe(downgrade);
});

test.each([
  [undefined, "web", true],
  [undefined, "web:latest", true],
  [undefined, "localhost:5000/web", true],
  [undefined, "web:main", false],
  [undefined, "web:1.5.0", false],
  [undefined, "web@sha256:aa", false],
  [undefined, "web:latest@sha256:aa", false],
  [undefined, "", false],
  [undefined, { a: 1 }, false],
  ["web:1.5.0", "web:main", true],
  ["web:1.5.0", "web:stable-alpine", true],
  ["web:1.5.0", "web:latest-alpine3.20", true],
  ["web:1.5.0", "web:edge-bookworm-slim", true],
  ["web:1.5.0", "web:main-3f2c1ab", false],
  ["web:main-1a2b3c", "web:main-abcdef", false],
  [`web:1.5.0`, `web:main${"-alpine".repeat(100)}x`, false],
  ["web@sha256:aa", "web:latest", true],
  ["web:3f2c1ab", "web", true],
  ["web:latest", "web:main", false], // it moved already
  ["web", "web:latest", false],
  ["web:main", "web:1.5.0", false],
  ["api:1.0.0", "web:latest", true],
])("from %s to %s, the tag starts to move: %s", (before, after, moves) => {
  expect(startsToMove(before, after)).toBe(moves);
});
