/** What a job carries in Redis: names, never state and never a secret. Parsed again by whoever takes it. */
import { z } from "zod";
import type { RepoId, Request } from "../src/model.ts";

/** A DNS name, as Kubernetes has them; anything else was not put there by us. */
const name = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);

const JobData = z.object({
  v: z.literal(1),
  kind: z.literal("reconcile"),
  namespace: name,
  name,
  cause: z.enum(["push", "manual", "change", "sweep", "interval"]),
  repo: z.string().max(2_000).optional(),
  delivery: z.string().max(200).optional(),
  receivedAt: z.number().int().nonnegative().optional(),
});

export type JobData = z.infer<typeof JobData>;

export function toJobData({ kind, deployment, cause, repo, delivery, receivedAt }: Request): JobData {
  return { v: 1, kind, ...deployment, cause, repo, delivery: delivery?.slice(0, 200), receivedAt };
}

/** `undefined` for what another version, or somebody else, has put there: the sweep will ask again. */
export function parseJobData(data: unknown): Request | undefined {
  const parsed = JobData.safeParse(data);
  if (!parsed.success) return undefined;
  const { v: _version, namespace, name, repo, ...rest } = parsed.data;
  return { ...rest, deployment: { namespace, name }, repo: repo as RepoId | undefined };
}
