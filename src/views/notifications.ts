/** What a target of notifications was sent, for people. Pure. */
import type { NotifierKind, SentRecord, Severity } from "../model.ts";
import { isReportedFailure } from "../model/sent-notifications.ts";

/** Times in epoch milliseconds. */
export interface ShownTarget {
  readonly target: string;
  readonly kind: NotifierKind;
  /** The newest first. */
  readonly recent: readonly { readonly at: number; readonly title: string; readonly severity: Severity }[];
  /** How many deployments fail, and how much else is open, as far as the target knows. */
  readonly open: number;
  /** Why it, or one of its channels, receives nothing at the moment. */
  readonly trouble?: { readonly since: number; readonly nextAt: number; readonly message: string } | undefined;
}

/** `record`: absent if the servers have not looked yet. */
export function showTarget(target: string, kind: NotifierKind, record: SentRecord | undefined): ShownTarget {
  const { sent = {}, seen = {}, recent = [], late = {}, refused = {} } = record ?? {};
  const matters = Object.values(sent).filter(({ state }) => state === "open").length;
  const open = matters + Object.values(seen).filter(isReportedFailure).length;
  const [trouble] = [...Object.values(late), ...Object.values(refused)];
  if (trouble === undefined) return { target, kind, recent, open };
  const { since, until: nextAt, channel } = trouble;
  const message = channel === undefined ? trouble.message : `${channel}: ${trouble.message}`;
  return { target, kind, recent, open, trouble: { since, nextAt, message } };
}
