/** Wraps reconciliations: records where users reach what was deployed, for the environments of the git host. */
import type { Interceptor } from "../kit/around.ts";
import type { Logger } from "../log.ts";
import { annotation } from "../model.ts";
import { servedUrlOf } from "../model/served-url.ts";
import type { Deployments } from "../ports.ts";
import { redactorOf } from "../redact/redactor.ts";
import type { Parts } from "./parts.ts";

export interface NoteServedUrlDeps {
  readonly deployments: Pick<Deployments, "setAnnotation">;
  /** Whether anything reads the record. */
  readonly isWanted: () => boolean;
  readonly log: Logger;
}

export function notesServedUrl({ deployments, isWanted, log }: NoteServedUrlDeps): Interceptor<Parts> {
  return {
    async settleProject(next, work, project) {
      const report = await next(work, project);
      const { deployment, signal, asked } = work;
      const { found } = report;
      // Only of what is in the cluster: a change that waits for approval serves nobody yet.
      if (!isWanted() || !found || !(found.deployed || found.clean) || asked?.overridesPatch || signal.aborted) {
        return report;
      }
      const url = servedUrlOf(found.rendered.objects);
      const before = deployment.annotations[annotation.servedUrl];
      if (url === before) return report;
      // Git hosts show it to everyone who may see the repository.
      const isSecret = url !== undefined && redactorOf(found.rendered, []).text(url) !== url;
      const wanted = isSecret ? undefined : url;
      if (wanted === before) return report;
      try {
        await deployments.setAnnotation(deployment, annotation.servedUrl, wanted);
      } catch (error) {
        if (signal.aborted) return report;
        const why = error instanceof Error ? error.message : String(error);
        log.warn({ ...deployment.key, error: why }, "could not record the URL of what is deployed");
      }
      return report;
    },
  };
}
