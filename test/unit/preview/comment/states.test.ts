import { expect, test } from "vitest";
import { samplePreview, sampleReport, samples } from "../../../../dev/comment-pictures/samples.ts";
import { renderComment, withoutTime } from "../../../../src/comment/comment.ts";
import type { PreviewCause } from "../../../../src/model.ts";
import { latestResult } from "../../../../src/preview/previous.ts";
import { describePreview, describeReport } from "../../../../src/preview/summary.ts";
import type { PreviewObject, Report } from "../../../../src/model/report.ts";
import { readComment } from "./read.ts";

const render = (report: Report) => renderComment(report, { maxLength: 65_536, marker: "<!-- towline -->" });
const sample = (name: string) => samples[name] as Report;

test.each([
  ["unchanged", "changes nothing in 3 deployments"],
  ["change", "changes 1 of 3 deployments: 3 objects changed, 1 new"],
  ["deletion", "changes 1 of 2 deployments: 5 objects changed, 1 new, 2 deleted"],
  [
    "errors",
    "would fail: 1 of 2 deployments cannot be rendered, 1 other has 1 error; would change 1 of 2 deployments: 1 object changed",
  ],
  ["conflict", "cannot be merged: conflict in 2 files"],
  ["fork", "not rendered: it comes from a fork"],
  ["agit", "not rendered: it was pushed for review, without a branch"],
  ["no-branch", "not rendered: no branch of this repository points at its head"],
  ["working", "comparing 2 of 3 deployments"],
  ["merged", "merged"],
])("the verdict on %s is one plain sentence", (name, verdict) => {
  expect(describeReport(sample(name))).toBe(verdict);
});

test("a verdict fits into a commit status, however large its numbers", () => {
  const most = Number.MAX_SAFE_INTEGER;
  const counts = { new: most, changed: most, deleted: most, orphan: most, errors: most, warnings: most };
  const previews = [samplePreview("prod", { counts }), samplePreview("staging", { state: "failed" })];

  expect(describeReport(sampleReport(previews)).length).toBeLessThanOrEqual(140);
});

test("a preview's description includes what blocks it", () => {
  const objects = sample("change").previews[0]?.objects ?? [];

  expect(describePreview(samplePreview("prod"))).toBe("no change");
  expect(describePreview(samplePreview("prod", { objects }))).toBe("3 changed, 1 new");
  expect(describePreview(samplePreview("prod", { objects, suspended: true }))).toBe("3 changed, 1 new; suspended");
  expect(describePreview(samplePreview("prod", { objects, approval: "after-merge" }))).toBe(
    "3 changed, 1 new; will need approval",
  );
  expect(describePreview(samplePreview("prod", { state: "failed" }))).toBe("cannot be rendered");
  expect(describePreview(samplePreview("prod", { state: "working" }))).toBe("comparing with the live cluster");
});

test("a report without changes is one line", () => {
  expect(render(sample("unchanged"))).toMatchInlineSnapshot(`
    "<!-- towline -->

    ### Towline: merging changes nothing in 3 deployments

    <sub>Merge of \`3f2c1ab\` into \`main\` at \`9d41e07\`, compared with the live cluster · 2026-01-02 14:02:11 UTC · took 2.1 s</sub>"
  `);
});

test("a change is shown with its table and diffs, and Secrets with their keys", () => {
  expect(render(sample("change"))).toMatchInlineSnapshot(`
    "<!-- towline -->

    ### Towline: merging changes 1 of 3 deployments: 3 objects changed, 1 new

    |   | deployment | target · cluster | changed | new | remark |
    | --- | --- | --- | ---: | ---: | --- |
    | 🟡 | \`shop/prod\` | \`prod\` · \`eu-1\` | 3 | 1 |  |
    | ⚪ | \`shop/staging\` | \`staging\` · \`eu-1\` | – | – | no change |
    | ⏸️ | \`shop/legacy\` | \`legacy\` · \`eu-1\` | – | – | no change; suspended: merging deploys nothing here |

    <details><summary>🟡 <b><code>shop/prod</code></b>: 3 changed, 1 new</summary>

    **Deployment** \`shop/frontend\`
    \`\`\`diff
     spec.template.spec.containers[0].image:
    -  registry.example/frontend:1.4.2
    +  registry.example/frontend:1.5.0
    \`\`\`

    **ConfigMap** \`shop/settings\`
    \`\`\`diff
     data.FEATURE_CHECKOUT:
    -  off
    +  on
     data.WORKERS:
    +  4
    \`\`\`

    - **changed** Secret \`shop/db\`: keys \`password\` changed, \`username\` unchanged
    - **new** HorizontalPodAutoscaler \`shop/frontend\`

    </details>

    <sub>Merge of \`3f2c1ab\` into \`main\` at \`9d41e07\`, compared with the live cluster · 2026-01-02 14:02:11 UTC · took 2.1 s</sub>"
  `);
});

test("deleted, immutable and far-reaching changes come before the table", () => {
  const body = render(sample("deletion"));

  expect(body.slice(0, body.indexOf("<details>"))).toMatchInlineSnapshot(`
    "<!-- towline -->

    ### Towline: merging **deletes 2 objects** in 1 of 2 deployments · 5 changed, 1 new

    - **Deleted** in \`shop/prod\`: PersistentVolumeClaim \`shop/data\` (its volume may go with it), Service \`shop/api\`
    - **Immutable** in \`shop/prod\`: StatefulSet \`shop/db\` (\`spec.serviceName\` cannot be changed: this deploy would fail)
    - **Far-reaching** in \`shop/prod\`: ClusterRole \`shop-reader\` (it is used in every namespace)

    |   | deployment | target · cluster | changed | new | deleted | existing drift | remark |
    | --- | --- | --- | ---: | ---: | ---: | ---: | --- |
    | 🔴 | \`shop/prod\` | \`prod\` · \`eu-1\` | 5 | 1 | 2 | 1 | will need approval |
    | ⚪ | \`shop/staging\` | \`staging\` · \`eu-1\` | – | – | – | – | no change |

    "
  `);
});

test("kluctl's errors are shown unchanged", () => {
  expect(render(sample("errors"))).toMatchInlineSnapshot(`
    "<!-- towline -->

    ### Towline: merging **would fail**: 1 of 2 deployments cannot be rendered, 1 other has 1 error; it would change 1 of 2 deployments: 1 object changed

    |   | deployment | target · cluster | changed | errors | remark |
    | --- | --- | --- | ---: | ---: | --- |
    | ❌ | \`shop/prod\` | \`prod\` · \`eu-1\` | – | – | cannot be rendered |
    | ❌ | \`shop/staging\` | \`staging\` · \`eu-1\` | 1 | 1 | 1 warning |

    <details open><summary>❌ <b><code>shop/prod</code></b>: cannot be rendered</summary>

    \`\`\`
    services/frontend/deploy.yml:14: 'replicas' is undefined
      File "deploy.yml", line 14, in template
    \`\`\`

    </details>

    <details open><summary>❌ <b><code>shop/staging</code></b>: 1 changed, 1 error</summary>

    **1 error**
    \`\`\`
    Deployment shop/api: Deployment.apps "api" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0
    \`\`\`

    **Deployment** \`shop/frontend\`
    \`\`\`diff
     spec.template.spec.containers[0].image:
    -  registry.example/frontend:1.4.2
    +  registry.example/frontend:1.5.0
    \`\`\`

    **1 warning**
    \`\`\`
    policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+
    \`\`\`

    </details>

    <sub>Merge of \`3f2c1ab\` into \`main\` at \`9d41e07\`, compared with the live cluster · 2026-01-02 14:02:11 UTC · took 2.1 s</sub>"
  `);
});

test("a conflict names its files", () => {
  expect(render(sample("conflict"))).toMatchInlineSnapshot(`
    "<!-- towline -->

    ### Towline: cannot be merged into \`main\`

    Conflict in 2 files:

    - \`services/frontend/deploy.yml\`
    - \`services/api/config.yml\`

    <sub>Head \`3f2c1ab\`, base \`main\` at \`9d41e07\` · 2026-01-02 14:02:11 UTC</sub>"
  `);
});

test("the comment on a fork explains why nothing was rendered", () => {
  expect(render(sample("fork"))).toMatchInlineSnapshot(`
    "<!-- towline -->

    ### Towline: not rendered, because it comes from a fork

    Rendering a project runs its code with the deployment's read access. Towline therefore renders only branches of this repository: a user with write access can push this branch to it.

    Alternatively, ask a user who may change the KluctlDeployments in the cluster to review this commit and run \`towline preview --allow gitea:example/shop#7 3f2c1ab7f0c94d1b8c5e2a6d0f3b9e8a7c6d5e4f\`

    <sub>Head \`3f2c1ab\`, base \`main\` · 2026-01-02 14:02:11 UTC</sub>"
  `);
});

test.each([
  [
    "agit",
    "because it was pushed without a branch",
    /can do that\. A user with write access can push these commits to a branch/,
  ],
  [
    "no-branch",
    "because no branch points at its head",
    /Its branch was deleted or has moved.* can push the branch again/,
  ],
] as const)("%s: the comment tells the author why nothing was rendered, and what to do", (name, why, how) => {
  const body = render(sample(name));
  expect(body).toContain(`### Towline: not rendered, ${why}\n\nRendering a project runs its code`);
  expect(body).toMatch(how);
});

test("the error that prevented the merge is shown unchanged", () => {
  const report = sampleReport([], { obstacle: { kind: "failed", message: "cannot fetch: the login was refused" } });

  expect(render(report)).toContain(
    "could not try to merge into `main`\n\n```\ncannot fetch: the login was refused\n```",
  );
});

test("while deployments are compared their rows show it", () => {
  expect(render(sample("working"))).toMatchInlineSnapshot(`
    "<!-- towline -->

    ### Towline: comparing 3 deployments with the live cluster …

    1 of 3 deployments done.

    |   | deployment | target · cluster | changed | remark |
    | --- | --- | --- | ---: | --- |
    | 🟡 | \`shop/staging\` | \`staging\` · \`eu-1\` | 1 |  |
    | ⏳ | \`shop/prod\` | \`prod\` · \`eu-1\` | – | comparing … |
    | ⏳ | \`shop/canary\` | \`canary\` · \`eu-1\` | – | comparing … |

    <details><summary>🟡 <b><code>shop/staging</code></b>: 1 changed</summary>

    **Deployment** \`shop/frontend\`
    \`\`\`diff
     spec.template.spec.containers[0].image:
    -  registry.example/frontend:1.4.2
    +  registry.example/frontend:1.5.0
    \`\`\`

    </details>

    <sub>Merge of \`3f2c1ab\` into \`main\` at \`9d41e07\`, compared with the live cluster · since 2026-01-02 14:02:09 UTC</sub>"
  `);
});

test("after the merge the last details stay, folded", () => {
  const body = render(sample("merged"));

  expect(body).toMatch(/^<!-- towline -->\n\n### Towline: merged into `main`\n/);
  expect(body).toContain("<details><summary>Result of the last preview</summary>\n\n|");
  expect(body).toMatch(/<\/details>\n\n<\/details>\n\n<sub>.*<\/sub>$/);
});

test("after closing, nothing is shown as in progress", () => {
  const body = render({ ...sample("working"), state: "closed" });

  expect(body).toContain("### Towline: closed without merging");
  expect(body).toContain("not compared");
  expect(body).not.toMatch(/⏳|comparing/);
});

test("values that may be secret are replaced by counts, with the reason", () => {
  const body = render(sample("concealed"));

  expect(body).toContain("Only counts are shown: values could not be told apart from secrets");
  expect(body).not.toContain("```");
});

test("a base that moves too fast is reported", () => {
  const body = render({ ...sample("change"), restarts: 3 });

  expect(body).toContain("`main` changes faster than it can be compared, and has changed again since `9d41e07`.");
});

test("a pull request that affects no deployment is reported as such", () => {
  expect(render(sampleReport([]))).toContain("### Towline: merging affects no deployment");
  expect(describeReport(sampleReport([]))).toBe("no deployment is affected");
});

test("many deployments without a change are folded into a table of their own", () => {
  const { nodes, html } = readComment(render(sample("many-deployments")));

  expect(nodes.filter(({ type }) => type === "table").map(({ children }) => children?.length)).toEqual([4, 2]);
  expect(html).toContain("<details><summary>24 deployments without a change</summary>");
});

test("diffs in nested folded sections are still diffs", () => {
  const { blocks } = readComment(render(sample("merged")));

  expect(blocks.map(({ language }) => language)).toEqual(["diff", "diff"]);
});

test("failures that are not the pull request's fault are not blamed on it", () => {
  const broken = samplePreview("prod", {
    state: "failed",
    failed: "render",
    failure: "deploy.yml:14: no such variable",
  });
  const ended = samplePreview("staging", { state: "failed", failed: "run", failure: "kluctl took longer than 2m" });
  const objects = sample("change").previews[0]?.objects ?? [];
  const report = sampleReport([broken, ended, samplePreview("canary", { objects })]);
  const body = render(report);

  expect(body).toContain(
    "### Towline: merging **would fail**: 1 of 3 deployments cannot be rendered; 1 other could not be compared; it would change 1 of 3",
  );
  expect(body).toMatch(/`shop\/staging`.*\| could not be compared \|/);
  expect(body).toContain("<b><code>shop/staging</code></b>: could not be compared</summary>");
  expect(describeReport(report)).toBe(
    "would fail: 1 of 3 deployments cannot be rendered; 1 other could not be compared; would change 1 of 3 deployments: 3 objects changed, 1 new",
  );
  expect(describePreview(ended)).toBe("could not be compared");
  expect(describeReport(sampleReport([ended]))).toBe("1 deployment could not be compared");
});

test("deployments with the same failure share one section", () => {
  const failure = "services/frontend/deploy.yml:14: 'replicas' is undefined";
  const previews = ["prod", "staging"].map((name) => samplePreview(name, { state: "failed", failure }));
  const body = render(sampleReport(previews));

  expect(body).toContain("### Towline: merging **would fail**: 2 deployments cannot be rendered\n");
  expect(body).toContain("<summary>❌ <b>the same failure in 2 deployments</b>: cannot be rendered</summary>");
  expect(body.split(failure)).toHaveLength(2);
});

const risky = (name: string, ...risks: PreviewObject["risks"]) =>
  samplePreview(name, { objects: [{ ref: { kind: "Deployment", name: "web" }, action: "changed", risks }] });
const away = { kind: "availability", text: "it is scaled to zero: no pod is left running" } as const;
const probe = { kind: "availability", text: "2 containers lose their readiness probes" } as const;
const root = { kind: "security", text: "a container may run as root" } as const;

test("what costs availability or security is shown with all reasons, between immutable and far-reaching changes", () => {
  const far = { kind: "far-reaching", text: "it changes permissions" } as const;
  const fixed = { kind: "immutable", text: "it cannot be changed" } as const;
  const body = render(sampleReport([risky("prod", far, root, away, probe, fixed)]));

  expect(
    body
      .slice(0, body.indexOf("<details"))
      .split("\n")
      .filter((line) => line.startsWith("- ")),
  ).toEqual([
    "- **Immutable**: Deployment `web` (it cannot be changed)",
    "- **Availability**: Deployment `web` (it is scaled to zero: no pod is left running; 2 containers lose their readiness probes)",
    "- **Security**: Deployment `web` (a container may run as root)",
    "- **Far-reaching**: Deployment `web` (it changes permissions)",
  ]);
});

test("of many reasons, the comment shows the first and counts the others", () => {
  const reasons = Array.from({ length: 12 }, () => root);
  const body = render(sampleReport([risky("prod", ...reasons)]));

  expect(body).toMatch(/(?:a container may run as root; ){10}and 2 more reasons\)/);
  expect(body).toMatch(/(?: – a container may run as root){3} – and 9 more risks\n/);
});

test("deployments are sorted by their most urgent risk, which their icon shows", () => {
  const kinds = ["far-reaching", "security", "availability", "immutable", "deletion"] as const;
  const previews = kinds.map((kind) => risky(kind, { kind, text: "a reason" }));
  const plain = [risky("plain"), samplePreview("same"), { ...risky("paused", root), suspended: true }];
  const rows = render(sampleReport([...plain, ...previews]))
    .split("\n")
    .flatMap((line) => /^\| (\S+) \| `shop\/(\S+)`/.exec(line)?.slice(1).join(" ") ?? []);

  expect(rows).toEqual([
    "🔴 immutable",
    "🔴 deletion",
    "🟠 paused",
    "🟠 security",
    "🟠 availability",
    "🟡 far-reaching",
    "🟡 plain",
    "⚪ same",
  ]);
});

test("a prune that will need confirmation is shown beside the deletions", () => {
  const [row, section] = render(sample("prune-waits"))
    .split("\n")
    .filter((line) => /needs? confirmation/.test(line));

  expect(row).toBe("| 🔴 | `shop/prod` | `prod` · `eu-1` | 12 | the prune will need confirmation |");
  expect(section).toBe(
    "**The prune needs confirmation.** 12 of 20 deployed objects would be deleted. After a merge they stay until the prune is confirmed with the annotation given in the message of `Ready`.",
  );
  const empty = samplePreview("prod", {
    objects: sample("prune-waits").previews[0]?.objects ?? [],
    pruneWaits: { doomed: 12, deployed: 12, empty: true },
  });
  expect(render(sampleReport([empty]))).toContain(
    "The merge renders no objects at all: 12 objects would be deleted. After",
  );
  expect(describePreview(empty)).toBe("12 deleted; its prune will need confirmation");
});

test("a comment on a preview without the cluster explains it, and how to get a comparison with the cluster", () => {
  const objects = sample("change").previews[0]?.objects ?? [];
  const isolated = samplePreview("prod", { objects, isolated: true });
  const command = `\`towline preview --allow gitea:example/shop#7 ${sampleReport([]).head}\``;
  const body = render(sampleReport([isolated]));

  expect(body).toContain(
    "**This is rendered without the cluster**, because the pull request does not come from a branch of this repo",
  );
  expect(body).toContain("compares the rendered objects before and after the merge, not with the live cluster");
  expect(body).toContain(command);
  expect(body).toContain("into `main` at `9d41e07`, compared with `main`, without the cluster ·");
  expect(body).not.toContain("compared with the live cluster");
  expect(describePreview(isolated)).toBe("3 changed, 1 new; rendered without the cluster");
  expect(describeReport(sampleReport([isolated]))).toBe(
    "changes 1 deployment: 3 objects changed, 1 new; rendered without the cluster",
  );

  const working = samplePreview("prod", { state: "working", isolated: true });
  expect(render(sampleReport([working], { state: "working" }))).toContain("comparing 1 deployment with `main` …");
  expect(describePreview(working)).toBe("comparing with the base branch");

  const mixed = render(sampleReport([isolated, samplePreview("staging", { objects })]));
  expect(mixed).toContain("**Some deployments are rendered without the cluster**");
  expect(mixed).toMatch(/`shop\/prod`.*\| without the cluster \|/);
  expect(mixed).toContain("compared with the live cluster");
});

test("a server that cannot isolate a fork reports it, with what to do", () => {
  const why =
    "This server is configured to render forks in isolation, but cannot isolate them (`towline doctor` shows why)";
  const body = render(sampleReport([], { obstacle: { kind: "fork", why } }));
  expect(body).toContain("### Towline: not rendered, because it comes from a fork");
  expect(body).toContain(`\n${why}.\n`);
  expect(body).toContain("towline preview --allow");
});

test("an outdated comment says so first, and when the next comparison follows", () => {
  const body = render({ ...sample("change"), staleUntil: Date.parse("2026-01-01T10:30:00Z") });
  const [, note, ...rest] = body.split("\n\n");
  expect(note).toMatch(/^⏳ \*\*Outdated\*\*: .* has changed since .* follows at 2026-01-01 10:30:00 UTC\.$/);
  expect(rest.join("\n\n")).toBe(render(sample("change")).split("\n\n").slice(1).join("\n\n"));
});

test.each([
  [{ head: "a".repeat(40), baseBranch: "main" }, "there is a newer commit `aaaaaaa`"],
  [{ head: sample("change").head, baseBranch: "next" }, "it is into `next` now"],
])("a comment whose next comparison waits for others says so first", (waiting, why) => {
  const [, line, ...rest] = render({ ...sample("change"), waiting }).split("\n\n");
  expect(line).toBe(
    `⏳ **Outdated**: ${why}. Its comparison waits for those of other pull requests. Until it is done, this is the result for \`3f2c1ab\`.`,
  );
  expect(rest.join("\n\n")).toBe(render(sample("change")).split("\n\n").slice(1).join("\n\n"));
});

const again = (fields: Partial<Report>, why?: PreviewCause) => {
  const latest = latestResult(sample("change"), why);
  return { ...sample("working"), ...fields, latest };
};

test.each<[string, Report, string]>([
  ["a newer commit", again({ head: "a".repeat(40) }, "base"), ", because there is a newer commit `aaaaaaa`"],
  ["another base branch", again({ baseBranch: "next" }), ", because it is into `next` now"],
  ["a moved base branch", again({ base: "b".repeat(40) }, "cluster"), ", because `main` has changed"],
  ["a base branch that is about to be read", again({ base: undefined }, "base"), ", because `main` has changed"],
  ["a library", again({}, "library"), ", because a repository that is included has changed"],
  ["the cluster", again({}, "cluster"), ", because the cluster has changed"],
  ["a user", again({}, "pull-request"), ""],
])("while a pull request is compared again because of %s, the last result stays, below one line", (_, report, why) => {
  const [marker, line, ...rest] = render(report).split("\n\n");
  expect(line).toBe(`⏳ **Comparing again**${why}. Until that is done, this is the result for \`3f2c1ab\`.`);
  expect([marker, ...rest].join("\n\n")).toBe(render(sample("change")));
  expect(describeReport(report)).toBe("comparing 2 of 3 deployments");
});

test("two comments are the same if they differ only in the time of day, and in how long it took", () => {
  const at = (finishedAt: string, startedAt = finishedAt, fields: Partial<Report> = {}) => {
    const times = { startedAt: Date.parse(startedAt), finishedAt: Date.parse(finishedAt) };
    return withoutTime(render({ ...sample("change"), ...times, ...fields }));
  };
  const one = at("2026-01-02T10:00:00Z");
  expect(at("2026-01-02T23:59:59Z", "2026-01-02T23:50:01Z")).toBe(one);
  expect(`${one}\n`).not.toContain("10:00:00");
  expect(withoutTime(`${render(sample("change")).replaceAll("\n", "\r\n")}\r\n`)).toBe(
    withoutTime(render(sample("change"))),
  );
  expect(at("2026-01-03T10:00:00Z")).not.toBe(one);
  expect(at("2026-01-02T10:00:00Z", undefined, { base: "b".repeat(40) })).not.toBe(one);
  expect(at("2026-01-02T10:00:00Z", undefined, { previews: sample("deletion").previews })).not.toBe(one);
  // Only in our own line.
  expect(withoutTime("<sub>x 10:00:00 UTC</sub>\nx 10:00:00 UTC")).toBe("<sub>x 10:00:00 UTC</sub>\nx 10:00:00 UTC");
});
