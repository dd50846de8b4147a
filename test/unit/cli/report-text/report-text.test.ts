import { stripVTControlCharacters, styleText } from "node:util";
import { expect, test } from "vitest";
import { samplePreview, sampleReport, samples } from "../../../../dev/comment-pictures/samples.ts";
import { renderReportText } from "../../../../src/cli/report-text/report-text.ts";
import type { Preview, PreviewObject, Report } from "../../../../src/model/report.ts";

const render = (report: Report) => renderReportText(report, { color: false });
const sample = (name: string) => samples[name] as Report;
const frontend = sample("change").previews[0]?.objects ?? [];

test("a report starts with the verdict, and continues with dangers, effects and what is unchanged", () => {
  const [prod, ...others] = sample("deletion").previews;
  const orphan: PreviewObject = {
    ref: { kind: "Service", name: "old", namespace: "shop" },
    action: "orphan",
    risks: [],
  };
  const canary = samplePreview("canary", { objects: [orphan, ...frontend.slice(1, 2)], suspended: true });

  expect(render(sampleReport([prod as Preview, canary, ...others]))).toMatchInlineSnapshot(`
    "Merging deletes 2 objects in 1 of 3 deployments · 5 changed, 1 new

    1 suspended deployment would change too (1 object changed, 1 orphan): merging deploys nothing there.

    Deleted in shop/prod:
      PersistentVolumeClaim shop/data – its volume may go with it
      Service shop/api

    Immutable in shop/prod:
      StatefulSet shop/db – spec.serviceName cannot be changed: this deploy would fail

    Far-reaching in shop/prod:
      ClusterRole shop-reader – it is used in every namespace

    shop/prod · target prod · cluster eu-1: 5 changed, 1 new, 2 deleted; will need approval; existing drift in 1 object
      - PersistentVolumeClaim shop/data – its volume may go with it
      - Service shop/api
      ~ StatefulSet shop/db – spec.serviceName cannot be changed: this deploy would fail
         spec.serviceName:
        -  db
        +  database
      ~ ClusterRole shop-reader – it is used in every namespace
         rules[0].verbs:
           - get
        +  - delete
      ~ Deployment shop/frontend
         spec.template.spec.containers[0].image:
        -  registry.example/frontend:1.4.2
        +  registry.example/frontend:1.5.0
      ~ ConfigMap shop/settings
         data.FEATURE_CHECKOUT:
        -  off
        +  on
         data.WORKERS:
        +  4
      ~ Secret shop/db
        ~ key password changed
          key username unchanged
      + HorizontalPodAutoscaler shop/frontend

    shop/canary · target canary · cluster eu-1: 1 changed, 1 orphan; suspended
      ? orphan Service shop/old
      ~ ConfigMap shop/settings
         data.FEATURE_CHECKOUT:
        -  off
        +  on
         data.WORKERS:
        +  4

    1 deployment without a change: shop/staging

    Merge of 3f2c1ab into main at 9d41e07, compared with the live cluster · 2026-01-02 14:02:11 UTC · took 2.1 s"
  `);
});

test("errors come before the objects, warnings after them, and a failure shows kluctl's message", () => {
  expect(render(sample("errors"))).toMatchInlineSnapshot(`
    "Merging would fail: 1 of 2 deployments cannot be rendered, 1 other has 1 error; it would change 1 of 2 deployments: 1 object changed

    shop/prod · target prod · cluster eu-1: cannot be rendered
      services/frontend/deploy.yml:14: 'replicas' is undefined
        File "deploy.yml", line 14, in template

    shop/staging · target staging · cluster eu-1: 1 changed, 1 error
      1 error
        Deployment shop/api: Deployment.apps "api" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0
      ~ Deployment shop/frontend
         spec.template.spec.containers[0].image:
        -  registry.example/frontend:1.4.2
        +  registry.example/frontend:1.5.0
      1 warning
        policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+

    Merge of 3f2c1ab into main at 9d41e07, compared with the live cluster · 2026-01-02 14:02:11 UTC · took 2.1 s"
  `);
});

test("messages that were not stored are counted", () => {
  const errors = [{ message: "no such kind\n  in deploy.yml" }];
  const counts = { ...samplePreview("prod", { errors }).counts, errors: 3, warnings: 1 };

  expect(render(sampleReport([samplePreview("prod", { errors, counts })]))).toContain(
    "cluster eu-1: 3 errors\n  3 errors\n    no such kind\n      in deploy.yml\n    … and 2 more errors\n  1 warning\n    … and 1 more warning\n",
  );
});

test("deployments with the same effect share one block, which lists them with what is different", () => {
  const text = render(sample("many-deployments"));

  expect(text).toMatch(
    /\n\nThe same in 14 deployments: 2 changed\n {2}in shop\/region-01 · target region · cluster eu-1\n {2}in shop\/region-02 · target region · cluster us-1\n/,
  );
  expect(text).toContain(
    "\n  in shop/region-04 · target region · cluster us-1; existing drift in 2 objects\n  in shop/region-05 ",
  );
  expect(text.split("~ Deployment shop/frontend")).toHaveLength(3);
  expect(text).toMatch(/\n\n24 deployments without a change: shop\/region-17, .*, shop\/region-40\n\n/);
});

test("the same object in other namespaces is named without them, as in the danger", () => {
  const lost = (namespace: string): PreviewObject => ({
    ref: { kind: "Service", name: "api", namespace },
    action: "deleted",
    risks: [{ kind: "deletion", text: "its DNS name and address stop working" }],
  });
  const previews = ["eu", "us"].map((name) =>
    samplePreview(name, { objects: [lost(name)], drift: name === "us" ? 1 : 0 }),
  );
  const text = render(sampleReport(previews));

  expect(text).toContain(
    "Deleted in shop/eu and 1 more:\n  Service api – its DNS name and address stop working\n\nThe same",
  );
  expect(text).toContain(
    "\n  in shop/us · target us · cluster eu-1; existing drift in 1 object\n  - Service api – its DNS name and address stop working\n",
  );
});

test("deployments with the same failure share one block", () => {
  const failure = "services/frontend/deploy.yml:14: 'replicas' is undefined";
  const previews = ["prod", "staging"].map((name) => samplePreview(name, { state: "failed", failure }));

  expect(render(sampleReport(previews))).toContain(
    `The same failure in 2 deployments: cannot be rendered\n  in shop/prod · target prod · cluster eu-1\n  in shop/staging · target staging · cluster eu-1\n  ${failure}\n`,
  );
});

test("a Secret is shown as its keys", () => {
  const secret: PreviewObject = {
    ref: { kind: "Secret", name: "db", namespace: "shop" },
    action: "changed",
    risks: [],
    secretKeys: [
      { key: "password", change: "changed" },
      { key: "token", change: "added" },
      { key: "legacy", change: "removed" },
      { key: "username", change: "unchanged" },
    ],
  };

  expect(render(sampleReport([samplePreview("prod", { objects: [secret] })]))).toContain(
    [
      "  ~ Secret shop/db",
      "    ~ key password changed",
      "    + key token added",
      "    - key legacy removed",
      "      key username unchanged",
      "",
    ].join("\n"),
  );
});

test("everything in the report is shown, and what it does not contain is counted", () => {
  const long = `+ ${"x".repeat(5_000)}`;
  const objects = Array.from({ length: 400 }, (_, index): PreviewObject => ({
    ref: { kind: "ConfigMap", name: `settings-${index}` },
    action: "changed",
    risks: [],
    diff: ` data.x:\n${long}  \n+ /merge`,
    linesLeftOut: index === 399 ? 12 : 0,
  }));
  const text = render(sampleReport([samplePreview("prod", { objects, objectsLeftOut: 7 })]));

  expect(text.split(`\n    ${long}  \n    + /merge\n`)).toHaveLength(401);
  expect(text).toContain("    + /merge\n       … 12 more lines\n  … and 7 more objects\n\nMerge of");
});

test.each([
  ["prune-waits", "\n  The prune needs confirmation. 12 of 20 deployed objects would be deleted. After"],
  ["prune-waits", "cluster eu-1: 12 deleted; its prune will need confirmation\n"],
  [
    "concealed",
    "cluster eu-1: 3 changed, 1 deleted\n  Only counts are shown: values could not be told apart from secrets\n",
  ],
  ["merged", "Merged into main\n\nAffected deployments are updated automatically.\n\nshop/prod"],
  ["working", "Comparing 3 deployments with the live cluster …\n\n1 of 3 deployments done.\n\nshop/staging"],
])("%s: the text says the same as the comment, without Markdown", (name, part) => {
  expect(render(sample(name))).toContain(part);
});

test("encrypted values that change are mentioned, although nothing else changes", () => {
  const encrypted = { files: 2, changed: ["secrets/prod.yml"] };

  expect(render(sampleReport([samplePreview("prod", { encrypted })]))).toContain(
    "cluster eu-1: no change\n  Previews do not decrypt encrypted values; they show placeholders such as encrypted0123456789a. Encrypted values change in secrets/prod.yml.\n",
  );
});

test("a merge that changes nothing takes three lines", () => {
  expect(render(sample("unchanged"))).toBe(
    [
      "Merging changes nothing in 3 deployments",
      "3 deployments without a change: shop/prod, shop/staging, shop/legacy",
      "Merge of 3f2c1ab into main at 9d41e07, compared with the live cluster · 2026-01-02 14:02:11 UTC · took 2.1 s",
    ].join("\n\n"),
  );
  expect(render(sampleReport([]))).toMatch(/^Merging affects no deployment\n\nMerge of [^\n]+$/);
});

test("colours show what is dangerous, added, removed and context, and change nothing else", () => {
  const paint = (format: Parameters<typeof styleText>[0], text: string) =>
    styleText(format, text, { validateStream: false });
  const lines = renderReportText(sample("deletion"), { color: true }).split("\n");

  expect(lines[0]).toBe(
    paint("bold", `Merging ${paint("red", "deletes 2 objects")} in 1 of 2 deployments · 5 changed, 1 new`),
  );
  expect(lines).toEqual(
    expect.arrayContaining([
      `${paint(["bold", "red"], "Deleted")} in shop/prod:`,
      `${paint(["bold", "yellow"], "Far-reaching")} in shop/prod:`,
      `  ${paint("red", "- Service shop/api")}`,
      `  ${paint("yellow", "~ ConfigMap shop/settings")}`,
      `  ${paint("green", "+ HorizontalPodAutoscaler shop/frontend")}`,
      `    ${paint("dim", " spec.serviceName:")}`,
      `    ${paint("red", "-  db")}`,
      `    ${paint("green", "+  database")}`,
    ]),
  );
  for (const [name, report] of Object.entries(samples)) {
    expect(stripVTControlCharacters(renderReportText(report, { color: true })), name).toBe(render(report));
  }
});
