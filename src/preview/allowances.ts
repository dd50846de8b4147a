/**
 * The commits of forks that a deployment is allowed to preview. They are listed in its annotation, which only users who
 * may change the resource can write; those users already decide whose code is run for it. Pure.
 */
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import { annotation, type GitDeployment, type PullRequest, pullRequestText } from "../model.ts";

/** No allowance is valid for longer, whatever it states. */
export const longestAllowanceMs = 7 * 24 * 3_600_000;
/** How far the author's clock may be ahead. */
const clocksDifferMs = 5 * 60_000;
/** The API server accepts no more than 256 KiB of annotations. */
const mostKept = 100;

const fullHash = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

const Allowance = z.object({
  /** As `pullRequestText` formats it. */
  pullRequest: z.string(),
  /** Identity of the base repository: the allowance is void once the deployment follows another one. */
  repo: z.string(),
  /** The one commit that is allowed. */
  head: z.string().regex(fullHash),
  until: z.iso.datetime(),
});

export type Allowance = z.infer<typeof Allowance>;

type Allowing = Pick<GitDeployment, "annotations" | "repo">;

export function isFullHash(text: string): boolean {
  return fullHash.test(text);
}

/** Returns the allowances that are valid now. An entry that cannot be parsed allows nothing. */
export function allowancesOf({ annotations, repo }: Allowing, now: number): readonly Allowance[] {
  const { data: entries = [] } = z.array(z.unknown()).safeParse(parseJson(annotations[annotation.allowPreview] ?? ""));
  return entries.flatMap((entry) => {
    const { data } = Allowance.safeParse(entry);
    const leftMs = data === undefined ? 0 : Date.parse(data.until) - now;
    return data?.repo === repo && leftMs > 0 && leftMs <= longestAllowanceMs + clocksDifferMs ? [data] : [];
  });
}

/** Returns the allowance by which this deployment may preview the pull request at its current head. */
export function findAllowance(
  deployment: Allowing,
  { key, head }: Pick<PullRequest, "key" | "head">,
  now: number,
): Allowance | undefined {
  return allowancesOf(deployment, now).find(
    (one) => isSamePullRequest(one.pullRequest, pullRequestText(key)) && one.head === head,
  );
}

/** Returns the annotation's value with another allowance added; each pull request has at most one allowed commit. */
export function withAllowance(deployment: Allowing, allowance: Allowance, now: number): string {
  const others = allowancesOf(deployment, now).filter(
    ({ pullRequest }) => !isSamePullRequest(pullRequest, allowance.pullRequest),
  );
  return JSON.stringify([...others, allowance].slice(-mostKept));
}

/** No host has two repositories whose names differ only in case. */
export function isSamePullRequest(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
