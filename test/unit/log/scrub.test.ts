import fc from "fast-check";
import { expect, test } from "vitest";
import { createScrubber } from "../../../src/log.ts";
import { cpuMs } from "../../support/cpu-time.ts";

test.each([
  ["https://user:pass@git.example.com/a.git", "https://***@git.example.com/a.git"],
  ["https://token@git.example.com/a.git", "https://***@git.example.com/a.git"],
  ["redis://:p@ss@redis:6379/0", "redis://***@redis:6379/0"],
  ["ssh://git@git.example.com/a.git", "ssh://git@git.example.com/a.git"],
  ["ssh://git:pass@git.example.com/a.git", "ssh://***@git.example.com/a.git"],
  ["git@github.com:org/repo.git", "git@github.com:org/repo.git"],
  [
    "see https://example.com/@scope and mail ann@example.com",
    "see https://example.com/@scope and mail ann@example.com",
  ],
])("the login of %s is removed", (text, clean) => {
  expect(createScrubber([])(text)).toBe(clean);
});

test("any secret of at least eight characters is removed", () => {
  const secrets = fc.array(fc.string({ minLength: 8, maxLength: 40, unit: "grapheme" }), {
    minLength: 1,
    maxLength: 4,
  });
  fc.assert(
    fc.property(secrets, fc.string(), fc.nat(), (values, around, index) => {
      const value = values[index % values.length] ?? "";
      const clean = createScrubber(values)(`${around}${value}`);
      // unless the replacement, or the text around it, contains it by chance
      return !clean.includes(value) || around.includes(value) || "***".repeat(9).includes(value);
    }),
  );
});

test("short values are not removed, because they would break up ordinary words", () => {
  expect(createScrubber(["main"])("refs/heads/main")).toBe("refs/heads/main");
});

test("if one secret is the beginning of another, the whole longer one is removed", () => {
  expect(createScrubber(["abcdefgh", "abcdefghijkl"])("x abcdefghijkl y")).toBe("x *** y");
});

test("a long text without URLs is scrubbed in less than two seconds", () => {
  const scrub = createScrubber(["some-secret-value"]);
  const startedAt = cpuMs();
  for (const text of ["a".repeat(1_000_000), "://".repeat(300_000), `://${"a@".repeat(300_000)}`]) scrub(text);
  expect(cpuMs() - startedAt).toBeLessThan(2_000);
});
