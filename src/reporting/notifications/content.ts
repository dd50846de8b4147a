/** Whether and when a target has to be sent again what it was sent. Pure. */
import type { SentNotice, SentState } from "../../model.ts";
import { digest } from "./digest.ts";
import type { Notice } from "./notices.ts";
import { wordsOf } from "./words.ts";

const changeEveryMs = 3_000;

/** For a target that forgets. */
export function isReminderDue(entry: SentNotice, refreshMs: number | undefined, now: number): boolean {
  return refreshMs !== undefined && entry.content !== undefined && now >= (entry.sentAt ?? entry.at) + refreshMs;
}

/** When the message may be changed again, in epoch milliseconds: chats limit how often. */
export function changeableAt({ sentAt = 0 }: SentNotice): number {
  return sentAt + changeEveryMs;
}

/** What a reader would notice. */
export function contentOf(notice: Notice, state: SentState): string {
  const { title, lines, linesLeftOut, succeeded } = wordsOf(notice, state);
  return digest(JSON.stringify([state, title, lines, linesLeftOut, succeeded]));
}
