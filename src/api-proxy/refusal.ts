/** Answers of the proxy's own, in the form in which the API server gives them. */

/** What a preview may not do, or sent in no proper form. */
export class Refusal extends Error {
  override name = "Refusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** By these, client-go decides whether something was forbidden, not found or may be tried again. */
const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  406: "NotAcceptable",
  409: "Conflict",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

export function toStatus(code: number, message: string): Record<string, unknown> {
  const reason = reasons[code];
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    ...(reason && { reason }),
    code,
  };
}
