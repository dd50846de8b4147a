/** The data of a job in Redis: names, never state and never a secret. Workers parse it again. */
import { z } from "zod";
import { parseQueueBranch, type RepoId, type Request } from "../src/model.ts";
import { traceparent } from "../src/log/tracing.ts";
import { commit, CommitKey, PullRequestKey } from "../src/redis/key-schemas.ts";
import type { Lane, LaneRequests } from "./lanes.ts";

const v = z.literal(1);

/** A DNS name as in Kubernetes; anything else did not come from Towline. */
const name = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
const repo = z
  .string()
  .max(2_000)
  .transform((text) => text as RepoId);
const delivery = z.string().max(200).optional();
/** One that is too long must not discard the job. */
const pushedTo = z.string().max(1_000).optional().catch(undefined);
const sender = z.string().max(100).optional();
const receivedAt = z.int().nonnegative().optional();
/** An invalid trace must not discard the job. */
const trace = z.string().regex(traceparent).optional().catch(undefined);

const Reconcile = z
  .object({
    v,
    kind: z.literal("reconcile"),
    namespace: name,
    name,
    cause: z.enum(["push", "include", "manual", "change", "sweep", "drift", "interval"]),
    repo: repo.optional(),
    delivery,
    sender,
    receivedAt,
    trace,
  })
  .transform(({ v: _version, namespace, name, ...rest }) => ({ ...rest, deployment: { namespace, name } }));

const Preview = z
  .object({
    v,
    kind: z.literal("preview"),
    pullRequest: PullRequestKey,
    cause: z.enum(["pull-request", "base", "library", "cluster", "sweep"]),
    delivery,
    receivedAt,
    trace,
  })
  .transform(({ v: _version, ...request }) => request);

const queueBranch = z
  .string()
  .max(1_000)
  .refine((text) => parseQueueBranch(text) !== undefined);
const MergeGroupKey = CommitKey.extend({ branch: queueBranch, base: commit });

const MergeGroup = z
  .object({
    v,
    kind: z.literal("merge-group"),
    group: MergeGroupKey,
    ended: z.boolean(),
    delivery,
    receivedAt,
    trace,
  })
  .transform(({ v: _version, ...request }) => request);

const Report = z
  .discriminatedUnion("kind", [
    z.object({ v, kind: z.literal("report"), pullRequest: PullRequestKey }),
    z.object({ v, kind: z.literal("commit-status"), commit: CommitKey, repo, pushedTo }),
  ])
  .transform(({ v: _version, ...request }) => request);

const Notify = z
  .object({ v, kind: z.literal("notify"), target: z.string().max(40) })
  .transform(({ v: _version, ...request }) => request);

const FluxFetch = z
  .object({
    v,
    kind: z.literal("flux-fetch"),
    namespace: name,
    name,
    cause: z.enum(["push", "sweep"]),
    /** Without it, Flux fetches once more than needed. */
    commit: commit.optional().catch(undefined),
    delivery,
  })
  .transform(({ v: _version, namespace, name, ...rest }) => ({ ...rest, source: { namespace, name } }));

const byLane: { readonly [L in Lane]: z.ZodType<LaneRequests[L]> } = {
  reconcile: Reconcile,
  manual: Reconcile,
  preview: z.union([Preview, MergeGroup]),
  report: Report,
  notify: Notify,
  flux: FluxFetch,
};

/** Copies field by field, so that nothing else gets into Redis. */
export function toJobData(request: Request): Readonly<Record<string, unknown>> {
  const { kind } = request;
  switch (kind) {
    case "reconcile": {
      const { deployment, cause, repo, delivery, sender, receivedAt, trace } = request;
      const { namespace, name } = deployment;
      const origin = { delivery: delivery?.slice(0, 200), sender: sender?.slice(0, 100), receivedAt, trace };
      return { v: 1, kind, namespace, name, cause, repo, ...origin };
    }
    case "preview": {
      const { pullRequest, cause, delivery, receivedAt, trace } = request;
      const origin = { delivery: delivery?.slice(0, 200), receivedAt, trace };
      return { v: 1, kind, pullRequest: names(pullRequest), cause, ...origin };
    }
    case "merge-group": {
      const { group, ended, delivery, receivedAt, trace } = request;
      const { forge, repoName, commit, branch, base } = group;
      const origin = { delivery: delivery?.slice(0, 200), receivedAt, trace };
      return { v: 1, kind, group: { forge, repoName, commit, branch, base }, ended, ...origin };
    }
    case "report":
      return { v: 1, kind, pullRequest: names(request.pullRequest) };
    case "commit-status": {
      const { forge, repoName, commit } = request.commit;
      return { v: 1, kind, commit: { forge, repoName, commit }, repo: request.repo, pushedTo: request.pushedTo };
    }
    case "notify":
      return { v: 1, kind, target: request.target };
    case "flux-fetch": {
      const { source, cause, commit, delivery } = request;
      const { namespace, name } = source;
      return { v: 1, kind, namespace, name, cause, commit, delivery: delivery?.slice(0, 200) };
    }
  }
}

function names({ forge, repoName, number }: z.infer<typeof PullRequestKey>) {
  return { forge, repoName, number };
}

/** Returns `undefined` for data of another version or origin: the sweep will request the work again. */
export function parseJobData<L extends Lane>(lane: L, data: unknown): LaneRequests[L] | undefined {
  return byLane[lane].safeParse(data).data as LaneRequests[L] | undefined;
}
