import { expect, test } from "vitest";
import { samplePreview, sampleReport } from "../../../dev/comment-pictures/samples.ts";
import { groupPreviews } from "../../../src/comment/groups.ts";
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

test("a dependency that is not shown leads to those that are", async () => {
  const depending = (name: string, on: string) => named(name, { annotations: { [annotation.dependsOn]: on } });
  const hidden = [
    depending("queue", "broker, db"),
    depending("broker", "db, queue, nowhere"),
    depending("infra", "other"),
  ];
  const shown = [depending("web", "queue, infra"), named("db"), depending("other", "db")];
  const { run, previews, told } = aPreviewWorld(shown, { allDeployments: () => [...shown, ...hidden] });
  await run();
  const dependsOn = new Map(previews().map((preview) => [preview.deployment.name, preview.dependsOn]));
  const inShop = (...names: string[]) => names.map((name) => ({ namespace: "shop", name }));
  expect(dependsOn.get("web")).toEqual(inShop("queue", "infra", "db", "other"));
  expect(dependsOn.get("db")).toBeUndefined();
  expect(describeNotes(told.at(-1)!, markdown)).toContain(
    "Deployed in this order, because of their dependencies: `shop/db` → `shop/other` → `shop/web`.",
  );
});

test("deployments of the same risk and size are listed in the order in which they would be deployed", () => {
  const risky = { ...of("risky", "api"), state: "failed" as const };
  const previews = [of("web", "api"), of("api", "db"), of("db"), risky].map((preview, at) => ({
    ...preview,
    warnings: [{ ref: { kind: "ConfigMap", name: `only-${at}` }, message: "differs" }],
  }));
  const listed = groupPreviews(previews).map(({ preview }) => preview.deployment.name);
  expect(listed).toEqual(["risky", "db", "api", "web"]);
});
