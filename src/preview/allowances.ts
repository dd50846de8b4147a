/**
 * Which commits of forks somebody allowed a deployment to preview. Its annotation says so, which takes the right to change the
 * resource: whoever has that decides already whose code is run for it. Pure.
 */
import { z } from "zod";
import { parseJson } from "../json.ts";
import { annotation, type GitDeployment, type PullRequest, pullRequestText } from "../model.ts";

/** No allowance holds for longer, whatever it says. */
export const longestAllowanceMs = 7 * 24 * 3_600_000;
/** By so much the clock of whoever wrote it may be ahead. */
const clocksDifferMs = 5 * 60_000;
/** The API server takes no more than 256 KiB of annotations. */
const mostKept = 100;

const fullHash = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

const Allowance = z.object({
  /** As `pullRequestText` has it. */
  pullRequest: z.string(),
  /** Identity of the base repository: a deployment that follows another one by now was not meant. */
  repo: z.string(),
  /** The one commit. */
  head: z.string().regex(fullHash),
  until: z.iso.datetime(),
});

export type Allowance = z.infer<typeof Allowance>;

type Allowing = Pick<GitDeployment, "annotations" | "repo">;

export function isFullHash(text: string): boolean {
  return fullHash.test(text);
}

/** Those that hold now. What cannot be read allows nothing. */
export function allowancesOf({ annotations, repo }: Allowing, now: number): readonly Allowance[] {
  const { data: entries = [] } = z.array(z.unknown()).safeParse(parseJson(annotations[annotation.allowPreview] ?? ""));
  return entries.flatMap((entry) => {
    const { data } = Allowance.safeParse(entry);
    const leftMs = data === undefined ? 0 : Date.parse(data.until) - now;
    return data?.repo === repo && leftMs > 0 && leftMs <= longestAllowanceMs + clocksDifferMs ? [data] : [];
  });
}

/** The one by which this deployment may preview the pull request, at the head that it has now. */
export function findAllowance(
  deployment: Allowing,
  { key, head }: Pick<PullRequest, "key" | "head">,
  now: number,
): Allowance | undefined {
  return allowancesOf(deployment, now).find(
    (one) => isSamePullRequest(one.pullRequest, pullRequestText(key)) && one.head === head,
  );
}

/** The annotation's value once this is allowed too; a pull request has one commit that is. */
export function withAllowance(deployment: Allowing, allowance: Allowance, now: number): string {
  const others = allowancesOf(deployment, now).filter(
    ({ pullRequest }) => !isSamePullRequest(pullRequest, allowance.pullRequest),
  );
  return JSON.stringify([...others, allowance].slice(-mostKept));
}

/** Hosts know no two repositories whose names differ in case only. */
export function isSamePullRequest(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
