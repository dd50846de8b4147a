import { expect, test } from "vitest";
import { samplePreview, sampleReport, samples } from "../../../../dev/comment-pictures/samples.ts";
import { renderReportText } from "../../../../src/cli/report-text/report-text.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import type { Preview, PreviewObject, Report } from "../../../../src/model/report.ts";
import { describeReport } from "../../../../src/preview/summary.ts";

const render = (report: Report, maxLength = 65_536) => renderComment(report, { maxLength, marker: "<!-- towline -->" });
const renderText = (report: Report) => renderReportText(report, { color: false });

const config = (name: string, diff = "  data.a\n- old\n+ new"): PreviewObject => ({
  ref: { kind: "ConfigMap", name, namespace: "shop" },
  action: "changed",
  risks: [],
  diff,
});
const of = (...objects: PreviewObject[]) => ({ objects, objectsLeftOut: 0 });

test("what is not the pull request's has a folded section each, and is counted nowhere else", () => {
  const body = render(samples["told-apart"] as Report);
  const [verdict] = body.split("\n").filter((line) => line.startsWith("### "));
  expect(verdict).toBe("### Towline: merging changes 1 of 3 deployments: 3 objects changed, 1 new");
  expect(body).toContain(
    "<details><summary>On <code>main</code>, but not deployed yet: 3 objects in 2 deployments</summary>",
  );
  expect(body).toContain(
    "<details><summary>Existing drift, not caused by this pull request: 1 object in 1 deployment</summary>",
  );
  expect(body).toContain("| ⚪ | `shop/staging` | `staging` · `eu-1` | – | – | – | no change |");
  const [, ofBase = "", drift = ""] = body.split(/(?=<details><summary>(?:On|Existing drift))/);
  expect(ofBase).toContain("In `shop/prod`:");
  expect(ofBase).toContain("In `shop/staging`:");
  expect(ofBase).toContain("2.1.0");
  expect(drift).toContain("spec.replicas");
});

test("a pull request without a change of its own says so, and what a deploy changes anyway", () => {
  const report = sampleReport([samplePreview("prod", { undeployed: of(config("a")) })]);
  expect(describeReport(report)).toBe("changes nothing in 1 deployment");
  const body = render(report);
  expect(body).toContain("### Towline: merging changes nothing in 1 deployment\n");
  expect(body).toContain("not deployed yet: 1 object in 1 deployment</summary>");
});

test("a pull request that changes only noise does not say that it changes nothing", () => {
  const previews = [samplePreview("prod", { noise: of(config("a")) }), samplePreview("staging")];
  const report = sampleReport(previews);
  expect(describeReport(report)).toBe("changes only what is folded as noise, in 1 of 2 deployments");
  const body = render(report);
  expect(body).toContain("### Towline: merging changes only what is folded as noise, in 1 of 2 deployments\n");
  expect(body).toContain("| ⚪ | `shop/prod` | `prod` · `eu-1` | only noise |");
  expect(body).toContain("<details><summary>Folded as noise: 1 object in 1 deployment</summary>");
  expect(renderText(report)).toContain("Folded as noise: 1 object in 1 deployment\n");
});

test("deployments with the same changes share them", () => {
  const same: Partial<Preview> = { undeployed: of(config("a")) };
  const previews = ["one", "two", "three", "four", "five"].map((name) => samplePreview(name, same));
  const body = render(sampleReport(previews));
  expect(body).toContain("In `shop/one`, `shop/two`, `shop/three` and 2 more deployments:");
  expect(body.match(/data\.a/g)).toHaveLength(1);
  expect(renderText(sampleReport(previews))).toContain("In shop/one, shop/two, shop/three, shop/four, shop/five:");
});

test("however much differs, the pull request's own changes keep their room", () => {
  const lines = Array.from({ length: 400 }, (_, line) => `+ line ${line}`).join("\n");
  const much = of(...Array.from({ length: 100 }, (_, at) => config(`c-${at}`, lines)));
  const own = { objects: [config("mine", "  data.mine\n- 1\n+ 2")] };
  const previews = Array.from({ length: 40 }, (_, at) =>
    samplePreview(`region-${at}`, { ...own, undeployed: { ...much, objectsLeftOut: at }, drifted: much }),
  );
  for (const maxLength of [8_000, 65_536]) {
    const body = render(sampleReport(previews), maxLength);
    expect(body.length).toBeLessThan(maxLength);
    expect(body).toContain("data.mine");
    expect(body).toMatch(/not deployed yet: [\d\u00a0]+ objects in 40 deployments/);
    expect(body).toMatch(/Existing drift, not caused by this pull request: [\d\u00a0]+ objects in 40 deployments/);
  }
});

test("errors that the base branch has as well are marked", () => {
  const errors = [
    { message: "mine" },
    { ref: { kind: "Pod", name: "a", namespace: "b" }, message: "known", old: true as const },
  ];
  const report = sampleReport([samplePreview("prod", { errors })]);
  for (const text of [render(report), renderText(report)]) {
    expect(text).toContain("Pod b/a (without this merge as well): known");
    expect(text).toMatch(/^ *mine$/m);
  }
});

test("if the base could not be compared, the section says what that means", () => {
  const report = sampleReport([samplePreview("prod", { objects: [config("a")], unattributed: "'x' is undefined" })]);
  const words = "so existing drift and commits that are not deployed yet are counted as changes here";
  expect(render(report)).toContain(`**The base branch could not be compared**, ${words}`);
  expect(renderText(report)).toContain(`The base branch could not be compared, ${words}: 'x' is undefined`);
});

test("the terminal shows the same, and leaves nothing out", () => {
  const text = renderText(samples["told-apart"] as Report);
  expect(text.slice(text.indexOf("On main"), text.lastIndexOf("Merge of"))).toMatchInlineSnapshot(`
    "On main, but not deployed yet: 3 objects in 2 deployments
      A deploy of main makes these changes, with or without this merge.
      In shop/prod:
        ~ ConfigMap shop/settings
           data.FEATURE_CHECKOUT:
          -  off
          +  on
           data.WORKERS:
          +  4
        ~ Deployment shop/api
           spec.template.spec.containers[0].image:
          -  registry.example/api:2.0.1
          +  registry.example/api:2.1.0
      In shop/staging:
        ~ ConfigMap shop/settings
           data.FEATURE_CHECKOUT:
          -  off
          +  on
           data.WORKERS:
          +  4

    Existing drift, not caused by this pull request: 1 object in 1 deployment
      These objects were changed in the cluster after they had been deployed. A deploy of main reverts that, with or without this merge.
      In shop/prod:
        ~ Deployment shop/worker
           spec.replicas:
          -  5
          +  2

    "
  `);
});
