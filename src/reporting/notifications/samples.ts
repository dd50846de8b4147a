/** One message of each kind, to try a target. Pure. */
import type { NoticeKind, NoticeState, Notification } from "../../model.ts";
import { severityOf } from "./words.ts";

interface Sample {
  readonly kind: NoticeKind;
  readonly state: NoticeState;
  readonly title: string;
  readonly lines: Notification["lines"];
}

const samples: readonly Sample[] = [
  {
    kind: "deploy",
    state: "succeeded",
    title: "shop: deployed 3f2c1ab to 2 deployments",
    lines: [
      { name: "shop/prod", state: "succeeded", text: "2 changed" },
      { name: "shop/staging", state: "succeeded", text: "1 new, 2 changed" },
    ],
  },
  {
    kind: "deploy",
    state: "failed",
    title: "shop: 3f2c1ab failed in 1 of 2 deployments",
    lines: [{ name: "shop/prod", state: "failed", text: "deploy failed: ConfigMap shop/settings: is invalid" }],
  },
  {
    kind: "deploy",
    state: "recovered",
    title: "shop: recovered, 77aa0c1 is deployed to 2 deployments",
    lines: [
      { name: "shop/prod", state: "succeeded", text: "2 changed" },
      { name: "shop/staging", state: "succeeded", text: "2 changed" },
    ],
  },
  {
    kind: "drift",
    state: "open",
    title: "shop: 1 deployment differs from git",
    lines: [{ name: "shop/prod", state: "warning", text: "2 changed" }],
  },
  {
    kind: "approval",
    state: "open",
    title: "shop: 1 deployment waits for approval",
    lines: [
      {
        name: "shop/prod",
        state: "waiting",
        text: "approve it on the page, by kluctl gitops deploy, or in spec.manualObjectsHash",
      },
    ],
  },
  {
    kind: "prune",
    state: "open",
    title: "shop: 1 deployment waits for the confirmation of a prune",
    lines: [
      { name: "shop/prod", state: "waiting", text: "confirm it by the annotation towline.dev/confirm-prune=6c1d2f4a" },
    ],
  },
  {
    kind: "overdue",
    state: "open",
    title: "shop: 1 deployment is overdue for a check",
    lines: [{ name: "shop/prod", state: "warning", text: "was not checked for longer than its interval" }],
  },
  {
    kind: "webhooks",
    state: "open",
    title: "github: webhooks are not arriving, so pushes are deployed late",
    lines: [
      {
        name: "github.com/acme/shop",
        state: "warning",
        text: "no webhook has reported its pushes since 2026-11-26 12:00 UTC",
      },
    ],
  },
  {
    kind: "login",
    state: "open",
    title: "github: the login expires soon",
    lines: [
      {
        name: "expiry",
        state: "warning",
        text: "2026-12-10 05:00 UTC; create a new token and configure it before then",
      },
    ],
  },
  {
    kind: "preview",
    state: "open",
    title: "acme/shop#7: the preview failed",
    lines: [{ name: "Raise the limit", state: "failed", text: "would fail: 1 of 2 deployments cannot be rendered" }],
  },
];

/** `seed` distinguishes them from the samples of other calls: targets drop what they have seen. */
export function sampleNotifications({ cluster, seed, now }: { cluster: string; seed: string; now: number }) {
  return samples.map(({ kind, state, title, lines }, index): Notification => {
    const id = `sample-${seed}-${index}`;
    const facts =
      kind === "deploy"
        ? [
            { label: "Commit", value: "3f2c1ab Raise the limit" },
            { label: "Author", value: "Ada" },
          ]
        : [];
    return {
      ...{ id, thread: id, kind, state, lines, facts, cluster, severity: severityOf(state, lines), linesLeftOut: 0 },
      title: `[sample] ${title}`,
      links: [],
      object: {
        apiVersion: "gitops.kluctl.io/v1beta1",
        kind: "KluctlDeployment",
        namespace: "shop",
        name: "prod",
        uid: "00000000-0000-0000-0000-000000000000",
      },
      at: now,
      sample: true,
    };
  });
}
