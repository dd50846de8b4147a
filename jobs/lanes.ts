/** The lanes: each is a queue with its own workers, so that none waits behind another. */
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
  /** Requests of users who wait for the result: they wait neither behind pushes nor behind due checks. */
  readonly manual: ReconcileRequest;
  readonly preview: PreviewRequest | MergeGroupRequest;
  readonly report: ReportRequest | CommitStatusRequest;
}

/** Also the name of the queue in Redis. */
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
