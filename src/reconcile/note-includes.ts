/**
 * Wraps reconciliations: records what the project includes and reads outside of its directory, for the next push that
 * changes some of it.
 */
import { hash } from "node:crypto";
import type { Interceptor } from "../kit/around.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { Logger } from "../log.ts";
import { annotation, followsGit } from "../model.ts";
import type { Deployments, Queue } from "../ports.ts";
import type { LoopFindings } from "./loop.ts";
import type { Parts } from "./parts.ts";
import type { JsonObject } from "../kit/json.ts";
import { formatIncludes, includesOf } from "../model/includes.ts";
import { formatReads, type NamedElsewhere, type OutsideReads, renderedPaths } from "../model/outside-reads.ts";
import type { Work } from "./work.ts";

export interface NoteIncludesDeps {
  readonly deployments: Pick<Deployments, "setAnnotation">;
  readonly queue: Pick<Queue, "enqueue">;
  /** Searches a directory of a checkout. `named`: what names paths elsewhere than in its files. */
  readonly findReads: (root: string, path: string, named: NamedElsewhere, signal: AbortSignal) => Promise<OutsideReads>;
  readonly log: Logger;
}

/** Deployments whose files need not be searched again, as long as they are at the same commit. */
const mostSearched = 2_000;

export function notesIncludes({ deployments, queue, findReads, log }: NoteIncludesDeps): Interceptor<Parts> {
  const searched = createBoundedMap<string>({ entries: mostSearched });

  return {
    async settleProject(next, work, project) {
      const report = await next(work, project);
      const { asked, signal } = work;
      const { found } = report;
      // One-off overrides say nothing about the next deploy.
      if (found === undefined || asked?.overridesPatch !== undefined || signal.aborted) return report;
      await attempt(work, () => noteIncludes(work, found.rendered.document));
      await attempt(work, () => noteReads(work, found));
      return report;
    },
  };

  async function noteIncludes({ deployment, request }: Work, document: JsonObject): Promise<void> {
    const before = deployment.annotations[annotation.includes];
    const text = formatIncludes(includesOf(document));
    if (text === before) return;
    // Nobody remembers a push to a new one that came in the meantime. Queued first, so that no crash forgets it: the job waits
    // for the end of this one. Once: a project may render other URLs each time.
    const known = new Set(before?.split("\n"));
    const gained = text?.split("\n").some((line) => !known.has(line));
    const { key, repo } = deployment;
    if (gained && request.cause !== "include") {
      await queue.enqueue([{ kind: "reconcile", deployment: key, cause: "include", repo }]);
    }
    await deployments.setAnnotation(deployment, annotation.includes, text);
  }

  /** A push in the meantime is found by the sweep. */
  async function noteReads({ deployment, signal }: Work, { checkout, rendered }: LoopFindings): Promise<void> {
    if (!followsGit(deployment)) return;
    const { source, args } = deployment.spec;
    const { path } = source;
    const isTold = path === "" || deployment.annotations[annotation.paths] !== undefined;
    const texts = args === undefined ? [] : [JSON.stringify(args)];
    const named = { paths: renderedPaths(rendered.document), texts };
    const subject = hash("sha1", JSON.stringify([checkout.commit, path, isTold, named]));
    if (checkout.commit !== "" && searched.get(deployment.uid) === subject) return;
    const text = isTold ? undefined : formatReads(path, await findReads(checkout.root, path, named, signal));
    if (text !== deployment.annotations[annotation.reads]) {
      await deployments.setAnnotation(deployment, annotation.reads, text);
    }
    searched.set(deployment.uid, subject);
  }

  /** Without the record, such pushes are found later, as before it existed. */
  async function attempt({ deployment, signal }: Work, write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (error) {
      if (signal.aborted) return;
      const why = error instanceof Error ? error.message : String(error);
      log.warn({ ...deployment.key, error: why }, "could not record what the project includes");
    }
  }
}
