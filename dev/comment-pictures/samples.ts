/** Sample reports of previews, one for each message that a comment can contain. */
import type { FieldChange } from "../../src/model.ts";
import type { ChildPreview, Preview, PreviewObject, Report, RolloutLine } from "../../src/model/report.ts";
import { diffObject } from "../../src/preview/object-diff.ts";
import { latestResult } from "../../src/preview/previous.ts";
import { createRedactor } from "../../src/redact/redactor.ts";

const startedAt = Date.UTC(2026, 0, 2, 14, 2, 9);

export function sampleReport(previews: readonly Preview[], fields: Partial<Report> = {}): Report {
  return {
    v: 1,
    pullRequest: { forge: "gitea", repoName: "example/shop", number: 7 },
    url: "https://git.example/example/shop/pulls/7",
    baseBranch: "main",
    head: "3f2c1ab7f0c94d1b8c5e2a6d0f3b9e8a7c6d5e4f",
    base: "9d41e07c2b8a4f6e0d1c3b5a7988766554433221",
    state: "done",
    previews: [...previews],
    earlierHeads: [],
    restarts: 0,
    startedAt,
    finishedAt: startedAt + 2_100,
    ...fields,
  };
}

/** Derives the counts from its objects and messages unless they are given. */
export function samplePreview(name: string, fields: Partial<Preview> = {}): Preview {
  const { objects = [], errors = [], warnings = [] } = fields;
  const count = (action: PreviewObject["action"]) => objects.filter((object) => object.action === action).length;
  const target = name.split("-")[0] ?? name;
  return {
    deployment: { namespace: "shop", name },
    target,
    cluster: "eu-1",
    state: "done",
    suspended: false,
    counts: {
      new: count("new"),
      changed: count("changed"),
      deleted: count("deleted"),
      orphan: count("orphan"),
      errors: errors.length,
      warnings: warnings.length,
    },
    drift: 0,
    objects: [],
    objectsLeftOut: 0,
    errors: [],
    warnings: [],
    ...fields,
  };
}

function object(kind: string, name: string, fields: Partial<PreviewObject> = {}): PreviewObject {
  return { ref: { kind, name, namespace: "shop" }, action: "changed", risks: [], ...fields };
}

type Change = readonly [path: string, before: unknown, after: unknown];

/** The diff that a preview has of such changes; `undefined` stands for a missing value. */
function diffOf(...changes: readonly Change[]): string {
  const fields = changes.map(([jsonPath, oldValue, newValue]): FieldChange => {
    const type = oldValue === undefined ? "insert" : newValue === undefined ? "delete" : "update";
    return { type, jsonPath, oldValue, newValue };
  });
  const flags = { new: false, orphan: false, deleted: false, hook: false };
  return diffObject({ ref: { kind: "ConfigMap", name: "any" }, ...flags, changes: fields }, createRedactor([])).diff;
}

const newImage = (name: string, before: string, after: string): Change => [
  "spec.template.spec.containers[0].image",
  `registry.example/${name}:${before}`,
  `registry.example/${name}:${after}`,
];
const image = (name: string, before: string, after: string) =>
  object("Deployment", name, { diff: diffOf(newImage(name, before, after)) });

const settings = object("ConfigMap", "settings", {
  diff: diffOf(["data.FEATURE_CHECKOUT", "off", "on"], ["data.WORKERS", undefined, "4"]),
});
const login = object("Secret", "db", {
  secretKeys: [
    { key: "password", change: "changed" },
    { key: "username", change: "unchanged" },
  ],
});
const scaler = object("HorizontalPodAutoscaler", "frontend", { action: "new" });
const frontend = [image("frontend", "1.4.2", "1.5.0"), settings, login, scaler];

const lost: PreviewObject[] = [
  object("PersistentVolumeClaim", "data", {
    action: "deleted",
    risks: [{ kind: "deletion", text: "its volume may go with it" }],
  }),
  object("Service", "api", { action: "deleted" }),
  object("StatefulSet", "db", {
    risks: [{ kind: "immutable", text: "`spec.serviceName` cannot be changed: this deploy would fail" }],
    diff: diffOf(["spec.serviceName", "db", "database"]),
  }),
  object("ClusterRole", "shop-reader", {
    ref: { kind: "ClusterRole", name: "shop-reader" },
    risks: [{ kind: "far-reaching", text: "it is used in every namespace" }],
    diff: diffOf(["rules[0].verbs", ["get"], ["get", "delete"]]),
  }),
];

const gone = Array.from({ length: 12 }, (_, index) =>
  object("ConfigMap", `catalog-${String(index + 1).padStart(2, "0")}`, { action: "deleted" }),
);

const many = Array.from({ length: 200 }, (_, index) => {
  const name = `service-${String(index + 1).padStart(3, "0")}`;
  const notes = Array.from({ length: 8 }, (_line, at): Change => {
    return [`spec.template.metadata.annotations.note-${at}`, undefined, String(at)];
  });
  return object("Deployment", name, { diff: diffOf(newImage(name, "2.0.1", "2.1.0"), ...notes) });
});

const wave = Array.from({ length: 40 }, (_, index) => {
  const objects = index < 14 ? [image("frontend", "1.4.2", "1.5.0"), settings] : index < 16 ? frontend : [];
  return samplePreview(`region-${String(index + 1).padStart(2, "0")}`, {
    objects,
    cluster: index % 2 === 0 ? "eu-1" : "us-1",
    target: "region",
    drift: index === 3 ? 2 : 0,
  });
});

const regions = Array.from({ length: 200 }, (_, index) =>
  samplePreview(`region-${String(index + 1).padStart(3, "0")}`, {
    objects: index % 3 === 0 ? [image("frontend", "1.4.2", `1.5.${index}`)] : [settings],
    cluster: `eu-${(index % 20) + 1}`,
  }),
);
const alike = Array.from({ length: 200 }, (_, index) =>
  object("ConfigMap", `settings-${String(index + 1).padStart(3, "0")}`, { diff: settings.diff }),
);

const scaled = object("Deployment", "worker", { diff: diffOf(["spec.replicas", 5, 2]) });

const staging = samplePreview("staging");
const legacy = samplePreview("legacy", { suspended: true });

const root = { namespace: "shop", name: "root" };
const [teamA, teamB, teamC] = (["new", "changed", "deleted"] as const).map((action, at) => {
  const diff = action === "changed" && ["  spec.args.version", "- 1.4.2", "+ 1.5.0"].join("\n");
  return object("KluctlDeployment", `team-${"abc"[at]}`, {
    ref: { group: "gitops.kluctl.io", kind: "KluctlDeployment", name: `team-${"abc"[at]}`, namespace: "shop" },
    action,
    ...(diff && { diff }),
  });
}) as [PreviewObject, PreviewObject, PreviewObject];

/** A deployment that `shop/root` contains. */
function sampleChild(name: string, action: ChildPreview["action"], fields: Partial<Preview>): ChildPreview {
  const unread = action === "new" ? ["spec.credentials"] : [];
  return { parent: root, action, unread, preview: samplePreview(name, { isolated: true, ...fields }) };
}

/** The steps of a deployment, with the seconds after the merge. */
function rolledOut(
  deployment: string,
  ...steps: [RolloutLine["steps"][number]["state"], string, number][]
): RolloutLine {
  const merged = Date.parse("2026-05-04T10:31:58Z");
  return { deployment, steps: steps.map(([state, text, seconds]) => ({ state, text, at: merged + seconds * 1_000 })) };
}

export const samples: Readonly<Record<string, Report>> = {
  unchanged: sampleReport([samplePreview("prod"), staging, legacy]),
  change: sampleReport([samplePreview("prod", { objects: frontend }), staging, legacy]),
  "one-deployment": sampleReport([samplePreview("prod", { objects: frontend, approval: "after-merge" })]),
  "200-objects": sampleReport([samplePreview("prod", { objects: many })]),
  "200-alike": sampleReport([samplePreview("prod", { objects: alike }), staging]),
  "20-deployments": sampleReport(regions.slice(0, 20)),
  "200-deployments": sampleReport(regions),
  deletion: sampleReport([
    samplePreview("prod", { objects: [...lost, ...frontend], approval: "after-merge", drift: 1 }),
    staging,
  ]),
  "told-apart": sampleReport([
    samplePreview("prod", {
      objects: frontend,
      drift: 1,
      drifted: { objects: [scaled], objectsLeftOut: 0 },
      undeployed: { objects: [settings, image("api", "2.0.1", "2.1.0")], objectsLeftOut: 0 },
    }),
    samplePreview("staging", { undeployed: { objects: [settings], objectsLeftOut: 0 } }),
    legacy,
  ]),
  children: sampleReport([samplePreview("root", { objects: [teamA, teamB, teamC], cluster: "eu-1" })], {
    children: {
      previews: [
        sampleChild("team-a", "new", {
          objects: [object("Deployment", "team-a", { action: "new" }), object("Service", "team-a", { action: "new" })],
        }),
        sampleChild("team-b", "changed", { objects: [image("frontend", "1.4.2", "1.5.0")] }),
        sampleChild("team-c", "deleted", { objects: gone.slice(0, 4) }),
      ],
      unshown: [
        { parent: root, deployment: "shop/team-d", reason: "not rendered, because its source is another repository" },
        {
          parent: root,
          deployment: "shop/team-e",
          reason: "deleted, but its objects stay in the cluster, because its `spec.delete` is not true",
        },
      ],
      beyond: 3,
    },
  }),
  "prune-waits": sampleReport([
    samplePreview("prod", { objects: gone, pruneWaits: { doomed: 12, deployed: 20, empty: false } }),
    staging,
  ]),
  errors: sampleReport([
    samplePreview("prod", {
      state: "failed",
      failure: "services/frontend/deploy.yml:14: 'replicas' is undefined\n  File \"deploy.yml\", line 14, in template",
    }),
    samplePreview("staging", {
      objects: [image("frontend", "1.4.2", "1.5.0")],
      errors: [
        {
          ref: { kind: "Deployment", name: "api", namespace: "shop" },
          message:
            'Deployment.apps "api" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
        },
      ],
      warnings: [{ message: "policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+" }],
    }),
  ]),
  conflict: sampleReport([], {
    obstacle: { kind: "conflict", paths: ["services/frontend/deploy.yml", "services/api/config.yml"] },
  }),
  fork: sampleReport([], { obstacle: { kind: "fork" }, base: undefined }),
  agit: sampleReport([], { obstacle: { kind: "fork", agit: true }, base: undefined }),
  "no-branch": sampleReport([], { obstacle: { kind: "no-branch" }, base: undefined }),
  "many-deployments": sampleReport(wave, { finishedAt: startedAt + 9_400 }),
  again: sampleReport([samplePreview("prod", { state: "working" }), staging, legacy], {
    head: "7ab40c19e2d85f3c6b1a09d87e6f5c4b3a291807",
    state: "working",
    finishedAt: undefined,
    latest: latestResult(sampleReport([samplePreview("prod", { objects: frontend }), staging, legacy]), "pull-request"),
  }),
  working: sampleReport(
    [
      samplePreview("prod", { state: "working" }),
      samplePreview("staging", { objects: [image("frontend", "1.4.2", "1.5.0")] }),
      samplePreview("canary", { state: "working" }),
    ],
    { state: "working", finishedAt: undefined },
  ),
  merged: sampleReport([samplePreview("prod", { objects: frontend }), staging], { state: "merged" }),
  rollout: sampleReport([samplePreview("prod", { objects: frontend }), staging], {
    state: "merged",
    mergeCommit: "4f1c2a9".padEnd(40, "0"),
    rollout: [
      rolledOut("", ["failure", "2 deployments: 1 failed, 1 up to date", 4]),
      rolledOut(
        "shop/prod",
        ["pending", "queued", 0],
        ["failure", "Deployment prod/api: spec.replicas: must be positive", 4],
      ),
      rolledOut(
        "shop/staging",
        ["pending", "queued", 0],
        ["pending", "being deployed", 1],
        ["success", "deployed: 2 changed", 3],
      ),
    ],
  }),
  concealed: sampleReport([
    samplePreview("prod", {
      concealed: "values could not be told apart from secrets",
      counts: { new: 0, changed: 3, deleted: 1, orphan: 0, errors: 0, warnings: 0 },
    }),
  ]),
  hostile: sampleReport([
    samplePreview("prod", {
      target: "@ada | #1 <img src=x>",
      objects: [
        object("ConfigMap", "`@ada` closes #1", {
          diff: diffOf([
            "data.x",
            undefined,
            "```\n@ada #1 <!-- towline --> https://example.com ![x](https://example.com/x.png)\n\u202eesrever",
          ]),
        }),
      ],
    }),
  ]),
};
