/** Starts spans: at the intake of a delivery, and in a job, which continues the trace of its delivery. */
import type { Accept } from "../intake/intake.ts";
import type { Attempt, MergeGroupRequest, Outcome, PreviewRequest, ReconcileRequest, Request } from "../model.ts";
import { around } from "../kit/around.ts";
import type { Queue } from "../ports.ts";
import type { Tracing } from "../log/tracing.ts";

export function tracedAccept(accept: Accept, tracing: Tracing): Accept {
  return (event) =>
    tracing.inSpan(
      "match",
      {},
      () => accept(event),
      ({ matched, queued, previews }) => ({ matched, queued, previews }),
    );
}

/** Requests that are enqueued within a span carry it along. */
export function tracedQueue<Q extends Pick<Queue, "enqueue">>(queue: Q, tracing: Tracing): Q {
  return around<Pick<Queue, "enqueue">, Q>(queue, {
    enqueue: (next, requests, moved) =>
      tracing.inSpan("enqueue", { requests: requests.length }, () => {
        const trace = tracing.carry();
        if (trace === undefined) return next(requests, moved);
        const carrying = requests.map((request) => (mayCarry(request) ? { ...request, trace } : request));
        return next(carrying, moved);
      }),
  });
}

type Traced = ReconcileRequest | PreviewRequest | MergeGroupRequest;

function mayCarry(request: Request): request is Traced {
  return request.kind === "reconcile" || request.kind === "preview" || request.kind === "merge-group";
}

/** Traces the jobs of one lane. `waited` must be called right before `work` for the same request. */
export function createTracedJobs<R extends Traced>(lane: string, tracing: Tracing) {
  const waits = new WeakMap<R, number>();
  return {
    waited: (request: R, seconds: number) => void waits.set(request, seconds),
    work(request: R, { attempt }: Attempt, work: () => Promise<Outcome | "busy">): Promise<Outcome | "busy"> {
      return tracing.continued(request.trace, () =>
        tracing.inSpan(
          request.kind,
          { lane, cause: causeOf(request), delivery: request.delivery, attempt, ...subject(request) },
          () => {
            tracing.past("queue wait", { lane }, waits.get(request) ?? 0);
            return work();
          },
          (outcome) =>
            outcome === "busy" ? { outcome } : { outcome: outcome.kind, failed: outcome.kind === "failed" },
        ),
      );
    },
  };
}

function causeOf(request: Traced): string {
  return request.kind === "merge-group" ? "merge-queue" : request.cause;
}

function subject(request: Traced) {
  if (request.kind === "merge-group") {
    const { forge, repoName, commit } = request.group;
    return { forge, repository: repoName, commit };
  }
  if (request.kind === "reconcile") {
    const { namespace, name } = request.deployment;
    return { "k8s.namespace.name": namespace, deployment: name };
  }
  const { forge, repoName, number } = request.pullRequest;
  return { forge, repository: repoName, "pull request": number };
}
