/** Adds the children of the compared deployments to what a preview has found. */
import type { Logger } from "../../log.ts";
import { keyText } from "../../model.ts";
import type { CompareDeps } from "../compare.ts";
import { earlyAfterMs, startEarly } from "../early.ts";
import type { Findings } from "../findings.ts";
import { type ChildrenInput, compareChildren } from "./compare-children.ts";

interface AddedChildren extends Pick<ChildrenInput, "parents" | "pullRequest" | "cluster" | "signal"> {
  readonly findings: Findings;
  /** Saves the findings so far. */
  readonly save: () => Promise<void>;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly log: Logger;
}

/**
 * The deployments do not wait for their children: if these take long, the findings are saved without them first. Rejects
 * only if the signal aborts, because children are no part of the result.
 */
export async function addChildren(added: AddedChildren, deps: CompareDeps): Promise<void> {
  const { findings, save, sleep, log, signal } = added;
  const { children: settings } = deps.settings;
  if (settings === undefined) return;
  const announce = () =>
    save().catch((error: unknown) => {
      log.debug({ err: error }, "could not save the preview without its child deployments; the final one will follow");
    });
  const early = startEarly({ afterMs: earlyAfterMs, sleep, announce }, signal);
  const previewed = new Set(findings.previews.map(({ deployment }) => keyText(deployment)));
  try {
    const show = (children: Findings["children"]) => void (findings.children = children);
    await compareChildren({ ...added, previewed, show }, deps, settings);
  } catch (error) {
    signal.throwIfAborted();
    findings.children = undefined;
    log.warn({ err: error }, "could not preview child deployments");
  } finally {
    await early.stop();
  }
}
