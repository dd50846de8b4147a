/** The words of a notification: its title and its lines. Pure. */
import { shorten } from "../../kit/shorten.ts";
import type { NoticeKind, NoticeLine, NoticeState, Severity } from "../../model.ts";
import type { Notice } from "./notices.ts";

/** The rest is counted; of what went well, a few examples are enough. */
const [mostLines, mostSucceeded] = [20, 10];
/** Titles are read on telephones; targets cut them at 150 and more characters. */
const longestTitle = 140;
const longestLine = 400;

export interface NoticeWords {
  readonly title: string;
  readonly severity: Severity;
  readonly lines: readonly NoticeLine[];
  readonly linesLeftOut: number;
  /** Deployments that went well, if others are listed; 0: none. */
  readonly succeeded: number;
}

export function wordsOf(notice: Notice, state: NoticeState): NoticeWords {
  const others = notice.lines.filter((line) => line.state !== "succeeded");
  const all = others.length > 0 ? others : notice.lines;
  const shown = all.slice(0, others.length > 0 ? mostLines : mostSucceeded);
  return {
    title: shorten(titleOf(notice, state), longestTitle),
    severity: severityOf(state, notice.lines),
    lines: shown.map((line) => ({ ...line, text: shorten(inOneLine(line.text), longestLine) })),
    linesLeftOut: all.length - shown.length,
    succeeded: notice.lines.length - all.length,
  };
}

export function severityOf(state: NoticeState, lines: readonly Pick<NoticeLine, "state">[]): Severity {
  if (state === "failed") return "error";
  if (state !== "open") return "info";
  return lines.some((line) => line.state === "failed") ? "error" : "warning";
}

function titleOf({ kind, about, commit, lines, unchanged }: Notice, state: NoticeState): string {
  if (kind === "preview") return `${about}: the preview failed`;
  if (kind === "webhooks") return `${about}: webhooks are not arriving, so pushes are deployed late`;
  if (kind === "login")
    return `${about}: the login ${lines.some((line) => line.state === "failed") ? "is refused" : "expires soon"}`;
  if (kind !== "deploy") return stateTitle(kind, about, lines.length);
  const [only] = lines;
  const all = lines.length + unchanged;
  const what = commit?.slice(0, 7) ?? "the specification";
  const failed = lines.filter((line) => line.state === "failed").length;
  const done = lines.filter((line) => line.state === "succeeded").length;
  const count = state === "succeeded" || state === "recovered" ? done : lines.length;
  const one = lines.length === 1 ? only : lines.find((line) => count === 1 && line.state === "succeeded");
  const who = one?.name ?? about;
  const where = one ? "" : ` to ${count} deployments`;
  switch (state) {
    case "failed":
      return one ? `${who}: ${what} failed` : `${who}: ${what} failed in ${failed} of ${all} deployments`;
    case "progress":
      return count === 1
        ? `${who}: deploying ${what}`
        : `${who}: deploying ${what}, ${done} of ${count} deployments done`;
    case "recovered":
      return `${who}: recovered, ${what} is deployed${where}`;
    default:
      return `${who}: deployed ${what}${one?.text ? ` (${one.text})` : where}`;
  }
}

type StateKind = Exclude<NoticeKind, "deploy" | "preview" | "webhooks" | "login">;

const stateWords: Readonly<Record<StateKind, readonly [one: string, many: string]>> = {
  drift: ["deployment differs from git", "deployments differ from git"],
  approval: ["deployment waits for approval", "deployments wait for approval"],
  prune: ["deployment waits for the confirmation of a prune", "deployments wait for the confirmation of a prune"],
  overdue: ["deployment is overdue for a check", "deployments are overdue for a check"],
};

function stateTitle(kind: StateKind, about: string, count: number): string {
  const [one, many] = stateWords[kind];
  return `${about}: ${count} ${count === 1 ? one : many}`;
}

const endWords: Readonly<Record<NoticeKind, string>> = {
  deploy: "superseded by a newer commit",
  drift: "no longer differs from git",
  approval: "nothing waits for approval any more",
  prune: "no prune waits for confirmation any more",
  overdue: "checked again",
  preview: "the preview does not fail any more",
  // True as well if Redis has lost the record.
  webhooks: "no missed pushes any more",
  login: "the login works, and is not about to expire",
};

/** The title once nothing is left of it. */
export function endTitle(kind: NoticeKind, about: string): string {
  return shorten(`${about}: ${endWords[kind]}`, longestTitle);
}

function inOneLine(text: string): string {
  return text
    .slice(0, 10 * longestLine)
    .replaceAll(/[\s\p{Cc}]+/gu, " ")
    .trim();
}
