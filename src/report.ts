/**
 * What a pull request's preview found, as it is told to people: redacted before it is made, so that it may be kept,
 * sent and shown. A schema, because it comes back from Redis.
 */
import { z } from "zod";
import type { RepoId } from "./model.ts";

const count = z.int().nonnegative();
const kubernetesName = z.string().max(253);

const Ref = z.object({
  group: z.string().optional(),
  version: z.string().optional(),
  kind: z.string(),
  name: z.string(),
  namespace: z.string().optional(),
});

/** Why a change deserves a second look. */
const Risk = z.object({
  /**
   * `deletion`: something is lost. `immutable`: the API server will refuse it. `far-reaching`: a kind whose changes
   * reach beyond their own object (CRD, Namespace, RBAC, webhooks of the API server …).
   */
  kind: z.enum(["deletion", "immutable", "far-reaching"]),
  /** One plain sentence or half of one, for people. */
  text: z.string(),
});

const SecretKey = z.object({
  key: z.string(),
  change: z.enum(["added", "removed", "changed", "unchanged"]),
});

const PreviewObject = z.object({
  ref: Ref,
  /** `orphan`: no longer in the project, and stays in the cluster because the deployment does not prune. */
  action: z.enum(["new", "changed", "deleted", "orphan"]),
  risks: z.array(Risk),
  /** Lines that begin with `+`, `-` or a space; a path of the object's fields stands above its changes. */
  diff: z.string().optional(),
  /** How many lines of the diff were not kept. */
  linesLeftOut: count.optional(),
  /** Of a Secret: its keys instead of its values. */
  secretKeys: z.array(SecretKey).optional(),
});

const Message = z.object({ ref: Ref.optional(), message: z.string() });

const Preview = z.object({
  deployment: z.object({ namespace: kubernetesName, name: kubernetesName }),
  target: z.string().optional(),
  cluster: z.string(),
  /**
   * `working`: not known yet. `done`: compared. `failed`: `failure` says why there is no comparison.
   */
  state: z.enum(["working", "done", "failed"]),
  /** A merge deploys nothing until somebody resumes it. */
  suspended: z.boolean(),
  /** Of a deployment with manual approval: whether changes wait for it already, or will after the merge. */
  approval: z.enum(["pending", "after-merge"]).optional(),
  /** What is deleted after the merge is so much that it waits for somebody to confirm it; `empty`: nothing is left. */
  pruneWaits: z.object({ doomed: count, deployed: count, empty: z.boolean() }).optional(),
  counts: z.object({
    new: count,
    changed: count,
    deleted: count,
    orphan: count,
    errors: count,
    warnings: count,
  }),
  /** Objects in which the cluster differs from the base already, as the deployment's status says. */
  drift: count,
  /** The objects that would change; the most important first. */
  objects: z.array(PreviewObject),
  /** How many further objects would change. */
  objectsLeftOut: count,
  errors: z.array(Message),
  warnings: z.array(Message),
  /** Rendered without the cluster, and compared with the base rendered like that: nothing in it is live. */
  isolated: z.literal(true).optional(),
  /** Placeholders stand for what so many files of the project have encrypted; `changed`: those in which that is new. */
  encrypted: z.object({ files: count, changed: z.array(z.string()) }).optional(),
  /** kluctl's words, with its file and line, or git's. */
  failure: z.string().optional(),
  /** `render`: what the merge holds cannot be rendered. `run`: something else came in between; nobody's change is to blame. */
  failed: z.enum(["render", "run"]).optional(),
  /** Why only counts are told: the values could not be told apart from secrets. */
  concealed: z.string().optional(),
});

const Obstacle = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("fork"),
    agit: z.boolean().optional(),
    /** Why it is not even rendered without the cluster, where forks are to be. */
    why: z.string().optional(),
  }),
  z.object({ kind: z.literal("no-branch") }),
  z.object({ kind: z.literal("conflict"), paths: z.array(z.string()) }),
  z.object({ kind: z.literal("failed"), message: z.string() }),
]);

export const Report = z.object({
  v: z.literal(1),
  pullRequest: z.object({ forge: z.string(), repoName: z.string(), number: z.int().positive() }),
  /** The pull request's page. */
  url: z.string(),
  /** Identity of the base repository; absent if no deployment follows it. */
  repo: z
    .string()
    .transform((text) => text as RepoId)
    .optional(),
  baseBranch: z.string(),
  head: z.string(),
  /** The base branch's commit that was merged with; absent if nothing had to be read. */
  base: z.string().optional(),
  /** Of the pull request; `working` while previews of an open one run. */
  state: z.enum(["working", "done", "closed", "merged"]),
  /** Why nothing was compared. */
  obstacle: Obstacle.optional(),
  /** Something failed that time may mend. */
  mendable: z.boolean().optional(),
  /** One for each deployment that the merge concerns. */
  previews: z.array(Preview),
  /** Heads from before, whose statuses may still say that something is pending; newest first. */
  earlierHeads: z.array(z.string()),
  /** How often in a row it was made again because the base had moved before it could be shown. */
  restarts: count,
  /** Epoch milliseconds. */
  startedAt: z.number(),
  finishedAt: z.number().optional(),
});

export type Report = z.infer<typeof Report>;
export type Preview = z.infer<typeof Preview>;
export type PreviewObject = z.infer<typeof PreviewObject>;
export type Risk = z.infer<typeof Risk>;

/** Whether it was not rendered because of where it comes from, which is no fault of what it proposes. */
export function isForeign({ obstacle }: Pick<Report, "obstacle">): boolean {
  return obstacle?.kind === "fork" || obstacle?.kind === "no-branch";
}

/** Whether the pull request was open when this was found; a report of one that is over keeps what was found before. */
export function isOpen<R extends Pick<Report, "state">>(report: R): report is R & { state: "working" | "done" } {
  return report.state === "working" || report.state === "done";
}
