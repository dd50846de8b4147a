/** What messages for people have in common, so that a state looks the same in chats and mailboxes. Pure. */
import type { NoticeLine, Notification } from "../model.ts";
import { toLine } from "./fit.ts";

/** Words of a message's state that have a sign and a colour of their own. */
export type MessageTone = "progress" | "good" | "neutral" | "waiting" | "warning" | "error";

interface Mark {
  readonly sign: string;
  /** Readable on white and on black. */
  readonly color: string;
}

export const marks: Readonly<Record<MessageTone, Mark>> = {
  progress: { sign: "⏳", color: "#0969da" },
  good: { sign: "✅", color: "#1a7f37" },
  neutral: { sign: "⏭️", color: "#6e7781" },
  waiting: { sign: "⏸️", color: "#bf8700" },
  warning: { sign: "⚠️", color: "#bf8700" },
  error: { sign: "❌", color: "#cf222e" },
};

export const lineTones: Readonly<Record<NoticeLine["state"], MessageTone>> = {
  succeeded: "good",
  failed: "error",
  warning: "warning",
  waiting: "waiting",
  progress: "progress",
};

export function toneOf({ kind, state, severity }: Notification): MessageTone {
  switch (state) {
    case "failed":
      return "error";
    case "progress":
      return "progress";
    case "open":
      if (kind === "approval" || kind === "prune") return "waiting";
      return severity === "error" ? "error" : "warning";
    case "closed":
      // A newer commit came: whether this one would have been well is not known.
      return kind === "deploy" ? "neutral" : "good";
    default:
      return "good";
  }
}

export function signedTitle(message: Notification): string {
  return `${marks[toneOf(message)].sign} ${message.title || message.kind}`;
}

export function signOf({ state }: NoticeLine): string {
  return marks[lineTones[state]].sign;
}

export const sampleNotice = "Only a sample: nothing happened.";

export function factsOf({ facts, cluster }: Notification): Notification["facts"] {
  return cluster === "" ? facts : [...facts, { label: "Cluster", value: cluster }];
}

/** In a chat, a fact is beside others: enough for what the first line of a commit message should be. */
const longestFact = 120;

export function toBriefFacts(facts: Notification["facts"]): string[] {
  return facts.map(({ label, value }) => `${label}: ${toLine(value, longestFact)}`);
}
