import { expect, test } from "vitest";
import { sampleReport, samples } from "../../../../dev/comment-pictures/samples.ts";
import { renderReportText } from "../../../../src/cli/report-text/report-text.ts";
import type { Report } from "../../../../src/model/report.ts";

const render = (report: Report) => renderReportText(report, { color: false });
const sample = (name: string) => samples[name] as Report;

test("a conflict names its files", () => {
  expect(render(sample("conflict"))).toMatchInlineSnapshot(`
    "Cannot be merged into main

    Conflict in 2 files:
      services/frontend/deploy.yml
      services/api/config.yml

    Head 3f2c1ab, base main at 9d41e07 · 2026-01-02 14:02:11 UTC"
  `);
});

test("every file with a conflict is named", () => {
  const paths = Array.from({ length: 60 }, (_, index) => `services/${index}.yml`);

  expect(render(sampleReport([], { obstacle: { kind: "conflict", paths } }))).toContain(
    `Conflict in 60 files:\n${paths.map((path) => `  ${path}\n`).join("")}\n`,
  );
});

test("a fork is explained in plain words", () => {
  expect(render(sample("fork"))).toMatchInlineSnapshot(`
    "Not rendered, because it comes from a fork

    Rendering a project runs its code with the deployment's read access. Towline therefore renders only branches of this repository: a user with write access can push this branch to it.

    Alternatively, ask a user who may change the KluctlDeployments in the cluster to review this commit and run towline preview --allow gitea:example/shop#7 3f2c1ab7f0c94d1b8c5e2a6d0f3b9e8a7c6d5e4f

    Head 3f2c1ab, base main · 2026-01-02 14:02:11 UTC"
  `);
});

test("a server that cannot isolate a fork reports it", () => {
  const why = "This server cannot isolate forks (`towline doctor` shows why)";

  expect(render(sampleReport([], { obstacle: { kind: "fork", why } }))).toContain(
    "\n\nThis server cannot isolate forks (towline doctor shows why).\n\n",
  );
});

test.each([
  ["agit", "Not rendered, because it was pushed without a branch\n", "a push to refs/for/… opens a pull request"],
  ["no-branch", "Not rendered, because no branch points at its head\n", "Its branch was deleted or has moved"],
] as const)("%s: the author learns why nothing was rendered", (name, verdict, why) => {
  expect(render(sample(name))).toContain(verdict);
  expect(render(sample(name))).toContain(why);
});

test("the error that prevented the merge is shown unchanged", () => {
  const message = "cannot fetch:\nthe login was refused";

  expect(render(sampleReport([], { obstacle: { kind: "failed", message } }))).toContain(
    "Could not try to merge into main\n\n  cannot fetch:\n  the login was refused\n\nHead",
  );
});
