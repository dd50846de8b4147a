/** The length of comments and the time to render them, from a report to the text. */
import type { Preview, Report } from "../../src/model/report.ts";
import { renderComment } from "../../src/comment/comment.ts";
import { median, milliseconds, type Table } from "./measurement.ts";

const counts = [1, 10, 100, 1_000] as const;
/** Limits: 65,536 characters is GitHub's maximum and our limit for the other git hosts; 1,000,000 is GitLab's. */
const limits = [65_536, 1_000_000] as const;

export function commentSizes(quick: boolean): Table {
  const rows = [true, false].flatMap((alike) =>
    counts.map((count) => {
      const report = aReport(count, alike);
      const cells = limits.flatMap((maxLength) => {
        const { length, ms } = measure(report, maxLength, quick ? 3 : 15);
        return [length.toLocaleString("en-US"), milliseconds(ms)];
      });
      return [`${count}, ${alike ? "the same change in all" : "a different change in each"}`, ...cells];
    }),
  );
  const head = limits.flatMap((limit) => [`characters (limit ${limit.toLocaleString("en-US")})`, "time to build"]);
  return { head: ["deployments in the comment", ...head], rows };
}

function measure(report: Report, maxLength: number, times: number): { length: number; ms: number } {
  const options = { maxLength, marker: `<!-- towline:v1:${"m".repeat(43)} -->` };
  let length = 0;
  const took = Array.from({ length: times }, () => {
    const from = performance.now();
    ({ length } = renderComment(report, options));
    return performance.now() - from;
  });
  return { length, ms: median(took) };
}

/** A report with three changed objects and a new one in each deployment. */
function aReport(count: number, alike: boolean): Report {
  const startedAt = Date.parse("2026-01-01T00:00:00Z");
  return {
    v: 1,
    pullRequest: { forge: "gitea", repoName: "example/shop", number: 1 },
    url: "http://gitea.example/example/shop/pulls/1",
    baseBranch: "main",
    head: "a".repeat(40),
    base: "b".repeat(40),
    state: "done",
    previews: Array.from({ length: count }, (_, i) => aPreview(i, alike ? "1.5.0" : `1.5.${i}`)),
    earlierHeads: [],
    restarts: 0,
    startedAt,
    finishedAt: startedAt + 1_000,
  };
}

function aPreview(index: number, version: string): Preview {
  const namespace = "shop";
  const changed = ["api", "frontend", "worker"].map((name) => ({
    ref: { group: "apps", version: "v1", kind: "Deployment", name, namespace },
    action: "changed" as const,
    risks: [],
    diff: [
      " spec.template.spec.containers[0].image:",
      `-  registry.example/${name}:1.4.2`,
      `+  registry.example/${name}:${version}`,
      " spec.replicas:",
      "-  1",
      "+  2",
    ].join("\n"),
  }));
  const created = { ref: { version: "v1", kind: "ConfigMap", name: "settings", namespace }, action: "new" as const };
  return {
    deployment: { namespace, name: `customer-${String(index).padStart(4, "0")}` },
    target: "prod",
    cluster: "eu-1",
    state: "done",
    suspended: false,
    counts: { new: 1, changed: 3, deleted: 0, orphan: 0, errors: 0, warnings: 0 },
    drift: 0,
    objects: [...changed, { ...created, risks: [] }],
    objectsLeftOut: 0,
    errors: [],
    warnings: [],
  };
}
