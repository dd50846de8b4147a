/** A notification as an alert of Alertmanager's API v2. Pure. */
import { z } from "zod";
import { parseJson } from "../../kit/json.ts";
import type { NoticeKind, NoticeObject, Notification } from "../../model.ts";
import { limitTexts } from "../fit.ts";
import { joinLines, toPlain, toPlainLine } from "../plain.ts";

export type AlertLabels = Readonly<Record<string, string>>;

export interface PostableAlert {
  readonly labels: AlertLabels;
  readonly annotations: Readonly<Record<string, string>>;
  readonly startsAt?: string;
  readonly endsAt: string;
  readonly generatorURL?: string;
}

/** Alertmanager has no limit, but it keeps every alert in memory and copies this text into its own messages. */
const longestDescription = 4_000;

const alertNames = {
  deploy: "TowlineDeployFailed",
  drift: "TowlineDrift",
  approval: "TowlineWaitsForApproval",
  prune: "TowlinePruneWaits",
  overdue: "TowlineCheckOverdue",
  preview: "TowlinePreviewFailed",
  webhooks: "TowlineWebhooksMissing",
  login: "TowlineLoginFails",
} as const satisfies Record<NoticeKind, string>;

/**
 * Labels are the identity of an alert: what changes while it is active, such as a commit or a message, is not among
 * them. Configured labels replace all others but the two that tell our alerts apart.
 */
export function toLabels(message: Notification, configured: AlertLabels): AlertLabels {
  const { kind, severity, cluster, thread, object } = message;
  return {
    severity,
    cluster,
    ...(object && isOnly(object, message) && { namespace: object.namespace, name: object.name }),
    ...configured,
    alertname: alertNames[kind],
    thread,
  };
}

/** Whether nothing else is concerned: the labels of one deployment would lead the others to the wrong people. */
function isOnly({ namespace, name }: NoticeObject, { lines, linesLeftOut }: Notification): boolean {
  return lines.length === 1 && linesLeftOut === 0 && lines[0]?.name === `${namespace}/${name}`;
}

/** Reads labels that were written as JSON; `undefined` if they identify no alert. */
export function parseLabels(text: string | undefined): AlertLabels | undefined {
  return Labels.safeParse(parseJson(text ?? "")).data;
}

const Labels = z.record(z.string(), z.string()).refine(({ alertname, thread }) => alertname && thread);

/** `endsAt` in epoch milliseconds: an alert is active until then. */
export function toAlert(message: Notification, labels: AlertLabels, endsAt: number, active: boolean): PostableAlert {
  const { title, lines, linesLeftOut, facts, links, at } = limitTexts(message);
  const problems = lines.map(toPlainLine);
  const others = facts.map(({ label, value }) => toPlain(`${label}: ${value}`));
  return {
    labels,
    annotations: {
      summary: toPlain(title),
      description: joinLines(problems, linesLeftOut, others, longestDescription),
    },
    // Without a start, Alertmanager keeps the one it knows. Here it would be the time of the recovery.
    ...(active && { startsAt: new Date(Math.min(at, endsAt)).toISOString() }),
    endsAt: new Date(endsAt).toISOString(),
    ...(links[0] && { generatorURL: links[0].url }),
  };
}
