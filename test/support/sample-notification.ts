import type { Notification } from "../../src/model.ts";

/** A failed push to three deployments, with what is not given taken from there. */
export function sampleNotification(own: Partial<Notification> = {}): Notification {
  return {
    id: "m-1f0c",
    thread: "t-77ab",
    kind: "deploy",
    state: "failed",
    severity: "error",
    title: "shop: 3f2c1ab failed in 1 of 3 deployments",
    facts: [
      { label: "Commit", value: "3f2c1ab Raise the limit" },
      { label: "Author", value: "Ada" },
      { label: "Succeeded", value: "1 deployment" },
    ],
    lines: [
      { name: "shop/prod", state: "failed", text: "deploy failed with 1 errors: ConfigMap/settings: is invalid" },
      { name: "shop/dev", state: "progress", text: "" },
    ],
    linesLeftOut: 0,
    links: [{ label: "Commit", url: "https://git.example.com/shop/commit/3f2c1ab" }],
    object: {
      apiVersion: "gitops.kluctl.io/v1beta1",
      kind: "KluctlDeployment",
      namespace: "shop",
      name: "prod",
      uid: "0b1c",
    },
    at: Date.UTC(2026, 10, 26, 12, 0, 0),
    cluster: "test",
    ...own,
  };
}
