/** Carries out a request to make Flux fetch: sets an annotation, to which Flux's source-controller reacts at once. */
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { type Attempt, type FluxFetchRequest, keyText, type Outcome } from "../model.ts";
import type { Clock, FluxSources } from "../ports.ts";

export interface FluxFetchDeps {
  readonly sources: Pick<FluxSources, "get" | "requestFetch">;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Sets the annotation, unless Flux has the pushed commit according to the API server itself. While an earlier request is
 * pending, Flux may be about to replace that commit. A needless request costs Flux one `ls-remote`; a crash repeats one.
 */
export function createFluxFetch({ sources, clock, log }: FluxFetchDeps) {
  return async function requestFetch(
    { source: key, cause, commit, delivery }: FluxFetchRequest,
    { signal, lastAttempt }: Pick<Attempt, "signal" | "lastAttempt">,
  ): Promise<Outcome> {
    try {
      const source = await sources.get(key, signal);
      if (source === undefined) return { kind: "skipped", why: "deleted" };
      if (source.suspended) return { kind: "skipped", why: "suspended" };
      if (commit !== undefined && commit === source.commit && !source.isRequested)
        return { kind: "skipped", why: "Flux has fetched this commit already" };
      await sources.requestFetch(key, new Date(clock.now()).toISOString(), signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) throw error;
      if (error.status === 404) return { kind: "skipped", why: "deleted" };
      const retry = error.status === 403 ? "person" : "soon";
      const message = messageOf(error, key);
      if (retry === "person" || lastAttempt)
        log.warn({ ...key, cause, delivery, error: message }, "fetch by Flux not requested");
      return { kind: "failed", retry, message };
    }
    log.info({ ...key, cause, delivery }, "requested a fetch by Flux");
    return { kind: "done" };
  };
}

function messageOf({ status, message }: ApiError, key: FluxFetchRequest["source"]): string {
  const what = `cannot request a fetch of GitRepository ${keyText(key)}`;
  return status === 403
    ? `${what}: the server's account is not allowed to; grant it get and patch on gitrepositories.source.toolkit.fluxcd.io`
    : `${what}: ${message}`;
}
