/** The rollout of a merged pull request, as the statuses of its merge commit and of its deployments show it. Pure. */
import { compareText } from "../kit/compare-text.ts";
import type { CommitStatus } from "../model.ts";
import type { Report, RolloutLine } from "../model/report.ts";
import { deploymentIn, isPreviewLine } from "./statuses.ts";

/** A deploy has three or four: `queued`, `being deployed`, its result, and perhaps a later failure. */
const mostSteps = 6;

/** What is true of one deployment now; the name is empty for all together. */
export interface RolloutState extends Pick<CommitStatus, "state" | "description"> {
  readonly deployment: string;
  readonly includes?: true | undefined;
}

/**
 * Adds what is new in the statuses, with the time at which it was seen. Returns the same rollout if nothing is: a step is
 * never removed, so that a later push does not rewrite what this one did.
 */
export function followRollout(
  known: Report["rollout"],
  statuses: readonly CommitStatus[],
  now: number,
): Report["rollout"] {
  const states = statuses.filter((status) => !isPreviewLine(status));
  return follow(
    known,
    states.map(({ context, ...state }) => ({ ...state, deployment: deploymentIn(context) })),
    now,
  );
}

/**
 * The same for the deployments that include the repository. Only those in `named` may still be named; the others are removed.
 * Their checks after the deploy are no steps of it.
 */
export function followConsumers(
  known: Report["rollout"],
  states: readonly RolloutState[],
  named: ReadonlySet<string>,
  now: number,
): Report["rollout"] {
  const still = known?.filter(({ includes, deployment }) => !includes || named.has(deployment));
  const kept = still?.length === known?.length ? known : still;
  const ended = new Set(known?.filter(({ steps }) => steps.at(-1)?.state === "success").map((line) => line.deployment));
  const news = states.filter(({ deployment, state }) => state === "failure" || !ended.has(deployment));
  return follow(kept, news, now);
}

function follow(known: Report["rollout"], states: readonly RolloutState[], now: number): Report["rollout"] {
  const lines = new Map((known ?? []).map((line) => [line.deployment, line]));
  let isNew = false;
  for (const { deployment, state, description, includes } of states) {
    const line: RolloutLine = lines.get(deployment) ?? { deployment, ...(includes && { includes }), steps: [] };
    const last = line.steps.at(-1);
    if (last?.state === state && last.text === description) continue;
    // What was deployed stays deployed: that a newer commit followed is that commit's own record.
    if (last?.state === "success" && state === "canceled") continue;
    isNew = true;
    const steps = withStep(line.steps, { state, text: description, at: now });
    const succeeded = line.succeeded === true || state === "success";
    lines.set(deployment, { ...line, steps, succeeded, failingSince: failingSince(line, state, now) });
  }
  return isNew ? [...lines.values()].toSorted((a, b) => compareText(a.deployment, b.deployment)) : known;
}

/** A retry in progress has not mended it. */
function failingSince(line: RolloutLine, state: CommitStatus["state"], now: number): number | undefined {
  if (state === "success" || state === "canceled") return undefined;
  return line.failingSince ?? (state === "failure" ? now : undefined);
}

/** The first step stays, because the time until the end counts from it. */
function withStep(steps: RolloutLine["steps"], step: RolloutLine["steps"][number]): RolloutLine["steps"] {
  const [first, ...rest] = [...steps, step];
  return first === undefined ? [] : [first, ...rest.slice(-(mostSteps - 1))];
}
