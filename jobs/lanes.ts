/** What is wanted goes by lanes, each a queue with workers of its own, so that none waits behind another. */
import type { CommitStatusRequest, PreviewRequest, ReconcileRequest, ReportRequest, Request } from "../src/model.ts";

export interface LaneRequests {
  readonly reconcile: ReconcileRequest;
  readonly preview: PreviewRequest;
  readonly report: ReportRequest | CommitStatusRequest;
}

/** Also the name of its queue in Redis. */
export type Lane = keyof LaneRequests;

export const lanes = ["reconcile", "preview", "report"] as const satisfies readonly Lane[];

export function laneOf({ kind }: Request): Lane {
  return kind === "commit-status" ? "report" : kind;
}
