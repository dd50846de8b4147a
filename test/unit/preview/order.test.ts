import { expect, test } from "vitest";
import { samplePreview, sampleReport } from "../../../dev/comment-pictures/samples.ts";
import { describeNotes } from "../../../src/comment/frame.ts";
import { markdown } from "../../../src/comment/text.ts";
import { annotation } from "../../../src/model.ts";
import { findOrder } from "../../../src/preview/order.ts";
import { aPreviewWorld, named } from "../../support/preview.ts";

const of = (name: string, ...dependsOn: string[]) =>
  samplePreview(name, { dependsOn: dependsOn.map((each) => ({ namespace: "shop", name: each })) });
const stepsOf = (...previews: ReturnType<typeof of>[]) =>
  findOrder(previews).map((step) => step.map(({ deployment }) => deployment.name));

test("deployments come after those that they depend on, and the others do not appear", () => {
  expect(stepsOf(of("web", "api", "cache"), of("db"), of("alone"), of("api", "db", "elsewhere"), of("cache"))).toEqual([
    ["db", "cache"],
    ["api"],
    ["web"],
  ]);
  expect(stepsOf(of("a"), of("b", "elsewhere"))).toEqual([]);
});

test("deployments that depend on themselves have no place in the order, nor has what waits for them", () => {
  expect(stepsOf(of("a", "b"), of("b", "a"), of("c", "a"), of("d"), of("e", "d"))).toEqual([["d"], ["e"]]);
  expect(stepsOf(of("a", "a"))).toEqual([]);
});

test("the comment names the order once, and shortens it", () => {
  const order = (...previews: ReturnType<typeof of>[]) =>
    describeNotes(sampleReport(previews), markdown).filter((note) => note.startsWith("Deployed in this order"));
  expect(order(of("db"), of("web", "db"), of("api", "db"))).toEqual([
    "Deployed in this order, because of their dependencies: `shop/db` → `shop/web`, `shop/api`.",
  ]);
  const chain = Array.from({ length: 9 }, (_, at) => of(`c${at}`, ...(at > 0 ? [`c${at - 1}`] : [])));
  const wide = Array.from({ length: 5 }, (_, at) => of(`w${at}`, "c0"));
  expect(order(...chain, ...wide)).toEqual([
    "Deployed in this order, because of their dependencies: `shop/c0` → `shop/c1`, `shop/w0`, `shop/w1`, 3 more → " +
      "`shop/c2` → `shop/c3` → `shop/c4` → `shop/c5` → 3 more steps.",
  ]);
  expect(order(of("a"), of("b"))).toEqual([]);
});

test("a preview knows the dependencies of its deployment", async () => {
  const { run, previews } = aPreviewWorld([
    named("prod", { annotations: { [annotation.dependsOn]: "db, infra/dns" } }),
  ]);
  await run();
  expect(previews()[0]?.dependsOn).toEqual([
    { namespace: "shop", name: "db" },
    { namespace: "infra", name: "dns" },
  ]);
});
