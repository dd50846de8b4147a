/** Sample notifications, as a team that deploys from git receives them. */
import type { NoticeLine, NoticeLink, Notification } from "../../src/model.ts";
import { sampleNotifications } from "../../src/reporting/notifications/samples.ts";

const cluster = "eu-1";
const at = Date.UTC(2026, 10, 26, 14, 2, 9);
const facts = [
  { label: "Commit", value: "3f2c1ab Raise the limit of the checkout workers" },
  { label: "Author", value: "Ada Lovelace" },
];
const page = "https://towline.example.com/#";
const links: readonly NoticeLink[] = [
  { label: "Commit", url: "https://git.example.com/acme/shop/commit/3f2c1ab7f0c94d1b8c5e2a6d0f3b9e8a7c6d5e4f" },
  { label: "Pull request #41", url: "https://git.example.com/acme/shop/pulls/41" },
  { label: "Rollout", url: `${page}/commit/3f2c1ab7f0c94d1b8c5e2a6d0f3b9e8a7c6d5e4f` },
];
const toDeployments: readonly NoticeLink[] = [{ label: "Deployments", url: `${page}/deployments` }];

function sample(
  own: Partial<Notification> & Pick<Notification, "kind" | "state" | "severity" | "title">,
): Notification {
  const id = `m-${own.kind}-${own.state}`;
  return { ...{ id, thread: id, facts: [], lines: [], linesLeftOut: 0, links: [], at, cluster }, ...own };
}

const deployed = (count: number): readonly NoticeLine[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `tenant-${String(index + 1).padStart(3, "0")}/shop`,
    state: "succeeded",
    text: index % 3 === 0 ? "1 new, 2 changed" : `${(index % 4) + 1} changed`,
  }));

const limit =
  'Deployment/checkout: admission webhook "limits.example.com" denied the request: ' +
  "spec.template.spec.containers[0].resources.limits.memory: 8Gi is more than the 4Gi of namespace tenant-017";

/** Those of `towline notify test`, by kind and state. */
const tests = Object.fromEntries(
  sampleNotifications({ cluster, seed: "pictures", now: at }).map((message) => [
    `test-${message.kind}-${message.state}`,
    message,
  ]),
);

export const samples: Readonly<Record<string, Notification>> = {
  ...tests,
  failed: sample({
    ...{ kind: "deploy", state: "failed", severity: "error", links },
    title: "shop: 3f2c1ab failed in 2 of 200 deployments",
    facts: [...facts, { label: "Succeeded", value: "196 deployments" }],
    lines: [
      { name: "tenant-017/shop", state: "failed", text: `deploy failed with 1 errors: ${limit}` },
      {
        ...{ name: "tenant-142/shop", state: "failed" },
        text: "cannot be rendered: dial tcp 10.0.14.2:6443: connect: connection refused",
      },
      { name: "tenant-101/shop", state: "waiting", text: "" },
      { name: "tenant-200/shop", state: "progress", text: "" },
    ],
  }),
  recovered: sample({
    ...{ kind: "deploy", state: "recovered", severity: "info", links },
    title: "shop: recovered, 8e1d0aa is deployed to 200 deployments",
    facts: [
      { label: "Commit", value: "8e1d0aa Lower the limit again" },
      { label: "Author", value: "Grace Hopper" },
    ],
    lines: deployed(10),
    linesLeftOut: 190,
  }),
  "one-deployed": sample({
    ...{ kind: "deploy", state: "succeeded", severity: "info", facts, links },
    title: "shop/prod: deployed 3f2c1ab (2 changed)",
    lines: [{ name: "shop/prod", state: "succeeded", text: "2 changed" }],
  }),
  progress: sample({
    ...{ kind: "deploy", state: "progress", severity: "info", links },
    title: "shop: deploying 3f2c1ab, 1 of 3 deployments done",
    facts: [...facts, { label: "Succeeded", value: "1 deployment" }],
    lines: [
      { name: "shop/prod", state: "progress", text: "" },
      { name: "shop/staging", state: "progress", text: "" },
    ],
  }),
  superseded: sample({
    ...{ kind: "deploy", state: "closed", severity: "info" },
    title: "shop: superseded by a newer commit",
  }),
  drift: sample({
    ...{ kind: "drift", state: "open", severity: "warning", links: toDeployments },
    title: "shop: 2 deployments differ from git",
    lines: [
      { name: "shop/prod", state: "warning", text: "3 chg" },
      { name: "shop/staging", state: "warning", text: "1 del" },
    ],
  }),
  closed: sample({
    ...{ kind: "drift", state: "closed", severity: "info" },
    title: "shop: no longer differs from git",
  }),
  preview: sample({
    ...{ kind: "preview", state: "open", severity: "error" },
    title: "acme/shop#7: the preview failed",
    lines: [
      {
        name: "A better shop",
        state: "failed",
        text: "would fail: 1 of 3 deployments cannot be rendered; changes 2 deployments: 2 objects changed",
      },
      { name: "shop/prod", state: "failed", text: "would fail" },
    ],
    links: [
      { label: "Pull request", url: "https://git.example.com/acme/shop/pulls/7" },
      { label: "Pull requests", url: `${page}/pull-requests` },
    ],
  }),
  joined: sample({
    ...{ kind: "deploy", state: "failed", severity: "error" },
    title: "3 notifications, 1 of failures",
    lines: [
      { name: "shop: 3f2c1ab failed in 2 of 200 deployments", state: "failed", text: "" },
      { name: "billing: 1 deployment waits for approval", state: "waiting", text: "" },
      { name: "search: deployed 77c0d1e to 3 deployments", state: "succeeded", text: "" },
    ],
  }),
  hostile: sample({
    ...{ kind: "deploy", state: "failed", severity: "error", links },
    title: "shop: *bold* <!channel> @everyone [click](https://evil.example) <b>&amp;</b> {{DATE(2026-01-01)}} ".repeat(
      3,
    ),
    facts: [
      { label: "Commit", value: `3f2c1ab <at>Ada</at> <!here> ${"a very long subject ".repeat(30)}` },
      { label: "Author", value: "\u202eEve <script>alert(1)</script>" },
    ],
    lines: [
      { name: "shop/prod", state: "failed", text: `${"withoutanyspace".repeat(20)} <img src=x onerror=alert(1)>` },
    ],
  }),
};
