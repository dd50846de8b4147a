import { expect, test } from "vitest";
import { leaseName } from "../../../src/kube/lease.ts";
import { resultName } from "../../../src/kube/result-secret.ts";

const id = "3f2c1abe-0000-4000-8000-000000000000";

test.for([
  ["git://git.test/org/my_shop", `cr-my-shop-${id}`],
  ["git://git.test:3000/org/Shop.v2!", `cr-shopv2-${id}`],
  ["git://git.test/org/a-name-that-is-much-too-long-for-this", `cr-a-name-that-is-much-too-${id}`],
  ["git://git.test", `cr-${id}`],
  ["", `cr-${id}`],
  [undefined, `cr-${id}`],
] as const)("the result of %s is named %s", ([repoKey, name]) => {
  expect(resultName("cr", id, repoKey)).toBe(name);
  expect(name.length).toBeLessThanOrEqual(63);
});

test("a Lease is named after its deployment, shortened to the maximum length", () => {
  expect(leaseName("shop.prod")).toBe("towline-shop.prod");
  const long = `${"a".repeat(236)}.${"b".repeat(16)}`;
  expect(leaseName(long)).toHaveLength(253);
  expect(leaseName(long)).not.toBe(leaseName(`${long.slice(0, -1)}c`));
  expect(leaseName(long)).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
});
