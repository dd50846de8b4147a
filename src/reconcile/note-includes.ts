/** Wraps reconciliations: records what the project includes, for the next push to one of these repositories. */
import type { Interceptor } from "../kit/around.ts";
import type { Logger } from "../log.ts";
import { annotation } from "../model.ts";
import type { Deployments, Queue } from "../ports.ts";
import type { Parts } from "./parts.ts";
import { formatIncludes, includesOf } from "../model/includes.ts";

export interface NoteIncludesDeps {
  readonly deployments: Pick<Deployments, "setAnnotation">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
}

export function notesIncludes({ deployments, queue, log }: NoteIncludesDeps): Interceptor<Parts> {
  return {
    async settleProject(next, work, project) {
      const report = await next(work, project);
      const { deployment, request, asked, signal } = work;
      // One-off overrides say nothing about the next deploy.
      if (report.found === undefined || asked?.overridesPatch !== undefined || signal.aborted) return report;
      const before = deployment.annotations[annotation.includes];
      const text = formatIncludes(includesOf(report.found.rendered.document));
      if (text === before) return report;
      log.debug({ ...deployment.key, includes: text }, "the project includes other repositories than before");
      try {
        await deployments.setAnnotation(deployment, annotation.includes, text);
        // Nobody remembers a push to a new one that came in the meantime. Once: a project may render other URLs each time.
        const known = new Set(before?.split("\n"));
        const gained = text?.split("\n").some((line) => !known.has(line));
        const { key, repo } = deployment;
        if (gained && request.cause !== "include") {
          await queue.enqueue([{ kind: "reconcile", deployment: key, cause: "include", repo }]);
        }
      } catch (error) {
        // Pushes to these repositories wait for the interval, as without a record.
        const why = error instanceof Error ? error.message : String(error);
        log.warn({ ...deployment.key, error: why }, `could not write the annotation ${annotation.includes}`);
      }
      return report;
    },
  };
}
