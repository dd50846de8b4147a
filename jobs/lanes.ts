/** What is wanted goes by lanes, each a queue with workers of its own, so that none waits behind another. */
import type {
  CommitStatusRequest,
  MergeGroupRequest,
  PreviewRequest,
  ReconcileRequest,
  ReportRequest,
  Request,
} from "../src/model.ts";

export interface LaneRequests {
  readonly reconcile: ReconcileRequest;
  /** What people ask for, and wait for at their terminals: it waits neither behind a push nor behind what was due. */
  readonly manual: ReconcileRequest;
  readonly preview: PreviewRequest | MergeGroupRequest;
  readonly report: ReportRequest | CommitStatusRequest;
}

/** Also the name of its queue in Redis. */
export type Lane = keyof LaneRequests;

export const lanes = ["reconcile", "manual", "preview", "report"] as const satisfies readonly Lane[];

export function laneOf(request: Request): Lane {
  switch (request.kind) {
    case "reconcile":
      return request.cause === "manual" ? "manual" : "reconcile";
    case "merge-group":
      return "preview";
    case "commit-status":
      return "report";
    default:
      return request.kind;
  }
}
