/** The lanes: each is a queue with its own workers, so that none waits behind another. */
import type {
  CommitStatusRequest,
  FluxFetchRequest,
  MergeGroupRequest,
  NotifyRequest,
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
  /** A target that does not answer holds up nothing else. */
  readonly notify: NotifyRequest;
  /** Requests to Flux, which take one patch each: they wait behind nothing. */
  readonly flux: FluxFetchRequest;
}

/** Also the name of the queue in Redis. */
export type Lane = keyof LaneRequests;

export const lanes = ["reconcile", "manual", "preview", "report", "notify", "flux"] as const satisfies readonly Lane[];

export function laneOf(request: Request): Lane {
  switch (request.kind) {
    case "reconcile":
      return request.cause === "manual" ? "manual" : "reconcile";
    case "merge-group":
      return "preview";
    case "commit-status":
      return "report";
    case "flux-fetch":
      return "flux";
    default:
      return request.kind;
  }
}
