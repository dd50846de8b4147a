/**
 * What deploys of the KluctlDeployments would change that other deployments contain, one level deep. They may not be in the
 * cluster yet, or not with this spec, so their projects are rendered from files alone, without the merge and with it.
 */
import { KilledError } from "../../errors.ts";
import { withTimeout } from "../../kit/deadline.ts";
import type { Logger } from "../../log.ts";
import { annotation, type CommandResult, type Merged, type PullRequest } from "../../model.ts";
import type { ChildPreview, ChildPreviews, Preview } from "../../model/report.ts";
import { reposOfUrls } from "../../model/repo-url.ts";
import { type ChildrenSettings, type CompareDeps, isOfTheMerge, type PreviewTarget, toWorking } from "../compare.ts";
import { describeSafely } from "../describe-diff.ts";
import { describeEncrypted } from "../encrypted-files.ts";
import { blameBase, findStubbed, isWithoutCluster, renderOffline, toIsolatedFailure } from "../isolated.ts";
import { isTouched } from "../reference-diff.ts";
import { compareRendersSafely } from "../render-diff.ts";
import { cutLine, redactVisibly } from "../visible-text.ts";
import { type ChangedChildren, isChild } from "./find-changes.ts";
import { type ParentFacts, planChildren, type PlannedChild, type Side } from "./plan.ts";

/** A compared deployment whose objects include KluctlDeployments that the merge changes. */
export interface ParentDeployment {
  readonly target: PreviewTarget;
  readonly changed: ChangedChildren;
}

export interface ChildrenInput {
  readonly parents: readonly ParentDeployment[];
  readonly pullRequest: Pick<PullRequest, "repoUrls" | "baseBranch">;
  /** The names of the deployments that have a preview of their own. */
  readonly previewed: ReadonlySet<string>;
  readonly cluster: string;
  /** Called with what is known so far, whenever that is more. */
  readonly show: (children: ChildPreviews) => void;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** For all children of a pull request. The comment exists meanwhile, but one of the places for pull requests is taken. */
const longestMs = 120_000;
const longestFailure = 2_000;
/** A reason may quote a spec, into which a branch may write a name of any length. */
const longestReason = 300;

interface Parent extends ParentFacts {
  readonly merge: Merged;
}

/** Rejects only if the signal aborts: a child that cannot be rendered says so itself. */
export async function compareChildren(
  { parents, pullRequest, previewed, cluster, show, log, signal }: ChildrenInput,
  deps: Pick<CompareDeps, "kluctl" | "limit" | "newId" | "clock">,
  { parse, refusal, kubernetesVersion }: ChildrenSettings,
): Promise<void> {
  const { repoUrls, baseBranch } = pullRequest;
  const context = { repos: reposOfUrls(repoUrls), baseBranch, previewed, parse, refusal };
  const { planned, unshown, beyond } = planChildren(parents.flatMap(toParent), context);
  if (planned.length + unshown.length === 0) return;
  const known = allKnown(parents);
  // Cut last: half of a secret would not be recognized.
  const reasons = unshown.map(async (one) => ({
    ...one,
    reason: cutLine(await redactVisibly(one.reason, known), longestReason),
  }));
  const previews = await Promise.all(planned.map(({ parent, child }) => toChildPreview(child, parent, cluster)));
  const children = { previews, unshown: await Promise.all(reasons), beyond };
  show(children);

  const deadline = withTimeout(longestMs, signal);
  const version = planned.length > 0 ? await kubernetesVersion().catch(() => undefined) : undefined;
  // One after the other: a pull request with many children uses no more resources at once than another.
  for (const [at, { parent, child }] of planned.entries()) {
    const working = previews[at] as ChildPreview;
    const rendering = { child, parent, kubernetesVersion: version, log, signal: deadline };
    previews[at] = await compareChild(working, rendering, deps);
    signal.throwIfAborted();
    show(children);
  }
}

function toParent({ target, changed }: ParentDeployment): Parent[] {
  const { deployment, merge, base, consumer, heads } = target;
  if ("error" in merge) return [];
  const facts = { base: base ?? merge.base, heads: heads ?? { commits: new Map() }, changed, merge };
  return [{ key: deployment.key, isConsumer: consumer !== undefined, ...facts }];
}

async function toChildPreview(child: PlannedChild, { key, changed }: Parent, cluster: string): Promise<ChildPreview> {
  const { action, onlySpec, unread, before, after } = child;
  const side = after ?? before;
  if (side === undefined) throw new Error("a child has neither a spec before the merge nor one after it");
  // Of a new one, any annotation is the branch's.
  const { target, ...preview } = toWorking(side.deployment, cluster, { isolated: true });
  const shown = target && (await redactVisibly(target, changed.knownSecrets));
  return {
    ...{ parent: key, action, unread: [...unread] },
    ...(onlySpec && { onlySpec }),
    preview: { ...preview, ...(shown && { target: shown }) },
  };
}

interface ChildRendering {
  readonly child: PlannedChild;
  readonly parent: Parent;
  readonly kubernetesVersion: string | undefined;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

type RenderDeps = Parameters<typeof compareChildren>[1];

async function compareChild(working: ChildPreview, rendering: ChildRendering, deps: RenderDeps): Promise<ChildPreview> {
  const { child, parent, log, signal } = rendering;
  const { knownSecrets, maskedValues } = parent.changed;
  try {
    const { result, encrypted } = await deps.limit(() => renderChild(rendering, deps), { signal });
    const hiding = {
      knownSecrets,
      maskedValues,
      // All objects of a deleted one are deleted with it.
      prune: child.after?.deployment.spec.prune ?? true,
      // A pull request cannot change what is ignored.
      ignoreChanges: child.before?.deployment.annotations[annotation.ignoreChanges],
    };
    const found = await describeSafely(result, hiding, signal);
    const inner = result.objects.filter((object) => isChild(object) && isTouched(object)).length;
    const preview: Preview = { ...working.preview, ...found, state: "done", ...(encrypted && { encrypted }) };
    return { ...working, ...(inner > 0 && { children: inner }), preview };
  } catch (error) {
    const { message, failed } = toChildFailure(error, signal);
    const failure = cutLine(await redactVisibly(message, knownSecrets), longestFailure);
    log.info({ ...parent.key, child: child.key, error: failure }, "child deployment not rendered");
    return { ...working, preview: { ...working.preview, state: "failed", failure, failed } };
  }
}

function toChildFailure(error: unknown, signal: AbortSignal): { message: string; failed: Preview["failed"] } {
  if (signal.aborted || (error instanceof KilledError && error.why === "timeout")) {
    return { message: "It was not rendered in time.", failed: "run" };
  }
  const isToBlame = isOfTheMerge(error, {}) && !isWithoutCluster(error);
  return { message: toIsolatedFailure(error).message, failed: isToBlame ? "render" : "run" };
}

interface ChildDifference {
  readonly result: CommandResult;
  readonly encrypted: Preview["encrypted"];
}

const nothing: CommandResult = { document: {}, objects: [], errors: [], warnings: [], objectsHash: "" };

async function renderChild(rendering: ChildRendering, deps: RenderDeps): Promise<ChildDifference> {
  const { child, parent, signal } = rendering;
  const [before, after] = [await placeBefore(child, parent, signal), await placeAfter(child, parent, signal)];
  const render = (side: Side, placed: NonNullable<typeof before>) =>
    renderOffline(placed, { ...rendering, deployment: side.deployment, runAs: parent.key }, deps);
  const old = child.before && before ? await render(child.before, before).catch(blameBase) : nothing;
  const now = child.after && after ? await render(child.after, after) : nothing;
  const path = (child.after ?? child.before)?.deployment.spec.source.path ?? "";
  return {
    result: await compareRendersSafely(old, now, signal),
    encrypted: describeEncrypted(path, after?.encrypted ?? new Map(), before?.encrypted),
  };
}

/** `undefined` if there is no project: then everything is new. If the merge moves it away, the base still has it. */
async function placeBefore({ before }: PlannedChild, { merge, base }: Parent, signal: AbortSignal) {
  if (before === undefined) return undefined;
  const { path } = before.deployment.spec.source;
  const placed = await findStubbed(merge, path, signal, before.commit);
  return placed === undefined && before.commit === undefined ? findStubbed(merge, path, signal, base) : placed;
}

async function placeAfter({ after }: PlannedChild, { merge }: Parent, signal: AbortSignal) {
  return after && merge.stubbed(after.deployment.spec.source.path, signal, after.commit);
}

function allKnown(parents: readonly ParentDeployment[]): string[] {
  return parents.flatMap(({ changed }) => changed.knownSecrets);
}
