/** Notifications: what chats, mailboxes and machines are told about deployments and pull requests. */

/**
 * `deploy`: what became of a commit, in all its deployments. The others are about the state of a deployment, whichever
 * commit it has.
 */
export const noticeKinds = ["deploy", "drift", "approval", "prune", "overdue", "preview", "webhooks", "login"] as const;
export type NoticeKind = (typeof noticeKinds)[number];

/** What a route can select. `started` to `recovered` are about commits. */
export const noticeEvents = [
  "started",
  "succeeded",
  "failed",
  "recovered",
  "drift",
  "approval",
  "prune",
  "overdue",
  "preview",
  "webhooks",
  "login",
] as const;
export type NoticeEvent = (typeof noticeEvents)[number];

export const severities = ["info", "warning", "error"] as const;
export type Severity = (typeof severities)[number];

/**
 * `progress`: has begun. `failed` and `open`: needs somebody. `recovered` and `closed`: no longer does. `succeeded`: went
 * well from the start.
 */
export const noticeStates = ["progress", "succeeded", "failed", "recovered", "open", "closed"] as const;
export type NoticeState = (typeof noticeStates)[number];

export interface NoticeLine {
  /** `namespace/name` of a deployment, or the name of a pull request, a repository or a part of a login. */
  readonly name: string;
  /** `waiting`: for a person. `warning`: something is not as it should be. */
  readonly state: "succeeded" | "failed" | "warning" | "waiting" | "progress";
  /** One line of plain text, masked; may be empty. */
  readonly text: string;
}

export interface NoticeLink {
  readonly label: string;
  /** Only http or https. */
  readonly url: string;
}

/** How other objects refer to a deployment. */
export interface NoticeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** A message as a target receives it. All texts are plain, masked, and without line breaks. */
export interface Notification {
  /** The same for all attempts to send this state of this subject, and for nothing else: letters, digits, `-` and `_`. */
  readonly id: string;
  /** The same for all states of what it is about, with the same restriction. */
  readonly thread: string;
  readonly kind: NoticeKind;
  readonly state: NoticeState;
  readonly severity: Severity;
  /** `shop: deployed 3f2c1ab to 12 deployments`, at most 200 characters. */
  readonly title: string;
  /** What else is known: commit message, author, branch, cluster. */
  readonly facts: readonly { readonly label: string; readonly value: string }[];
  /** At most 20, what needs somebody first. If anything does, what went well is only counted, in a fact. */
  readonly lines: readonly NoticeLine[];
  /** How many lines like the last one were left out. */
  readonly linesLeftOut: number;
  readonly links: readonly NoticeLink[];
  /** A deployment that it is about, the first that needs somebody; absent for a pull request. */
  readonly object?: NoticeObject | undefined;
  /** When this state began, in epoch milliseconds. */
  readonly at: number;
  /** Name of the cluster. */
  readonly cluster: string;
  /** Whether it is only a sample, sent by `towline notify test`. */
  readonly sample?: boolean | undefined;
}

export const notifierKinds = ["slack", "teams", "email", "webhook", "cloudevents", "alertmanager", "flux"] as const;
export type NotifierKind = (typeof notifierKinds)[number];
