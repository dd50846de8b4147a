/** Splits a preview into its steps, from the server's log and its requests to the git host. Pure. */
import type { Asked } from "./forge-proxy.ts";
import { type Step, takeApart } from "./timeline.ts";
import type { LogLine, Ran } from "./towline.ts";

/** A preview, from the action on the git host to the comment with its result. */
export interface Preview {
  /** `gitea:org/repo#7` */
  readonly subject: string;
  /** When the git host had confirmed the action. */
  readonly doneAt: number;
  /** The request that wrote the comment with the result. */
  readonly comment: Asked;
  /** When the server logged that everything is reported. */
  readonly reportedAt: number;
  /** All requests to the git host from the delivery until everything was reported. */
  readonly asked: readonly Asked[];
  readonly lines: readonly LogLine[];
  readonly ran: readonly Ran[];
}

/** Consecutive parts in milliseconds, which add up to the time until the comment was there. */
export interface Split {
  readonly webhook: number;
  readonly queue: number;
  readonly merge: number;
  readonly diff: number;
  readonly report: number;
  /** Answer times of the git host before and after the comparison; requests during it delay nothing. */
  readonly forge: number;
  readonly total: number;
}

export function splitPreview(preview: Preview): Split {
  const { subject, doneAt, comment, asked, lines } = preview;
  const receivedAt = receivedAtOf(lines);
  const compared = lines.filter(({ msg, pullRequest }) => msg === "preview compared" && pullRequest === subject);
  const first = asked.find((one) => kindOf(one) === "read the pull request");
  if (first === undefined || compared.length === 0)
    throw new Error(`The server has logged no comparison for ${subject}.`);
  const comparingFrom = Math.min(...compared.map(({ at, ms }) => at - Number(ms)));
  const comparedAt = Math.max(...compared.map(({ at }) => at));
  const forge = (from: number, to: number) =>
    asked.filter((one) => one.from >= from && one.to <= to).reduce((sum, one) => sum + one.to - one.from, 0);
  const [before, after] = [forge(first.from, comparingFrom), forge(comparedAt, comment.to)];
  return {
    webhook: receivedAt - doneAt,
    queue: first.from - receivedAt,
    merge: comparingFrom - first.from - before,
    diff: comparedAt - comparingFrom,
    report: comment.to - comparedAt - after,
    forge: before + after,
    total: comment.to - doneAt,
  };
}

/** The steps from the delivery to the comment. */
export function stepsOf({ comment, asked, lines, ran }: Preview): Step[] {
  const others = asked.map((one) => ({ name: `forge: ${kindOf(one)}`, from: one.from, to: one.to, ours: false }));
  const moments = { receivedAt: receivedAtOf(lines), recordedAt: comment.to };
  return takeApart(moments, ran, { last: "the end", others });
}

export function receivedAtOf(lines: readonly LogLine[]): number {
  const accepted = lines.find(({ msg }) => msg === "pull-request accepted");
  if (accepted === undefined) throw new Error("The server has logged no delivery for the pull request.");
  return accepted.at - Number(accepted["ms"]);
}

/** The kind of request, for a table. */
export function kindOf({ method, path }: Pick<Asked, "method" | "path">): string {
  if (/\/statuses\//.test(path)) return "write a status";
  if (/\/comments(\/\d+)?$/.test(path)) return method === "GET" ? "read the comments" : "write the comment";
  return /\/pulls\/\d+$/.test(path) ? "read the pull request" : "other requests";
}
