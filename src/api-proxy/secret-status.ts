/** Hides what the API server's messages about a Secret may quote of it. Pure. */
import { z } from "zod";
import { toStatus } from "./refusal.ts";

const Cause = z.object({ reason: z.string().optional(), field: z.string().optional(), message: z.string().optional() });
const Status = z.object({
  kind: z.literal("Status"),
  status: z.string().optional(),
  message: z.string().optional(),
  reason: z.string().optional(),
  code: z.number().optional(),
  details: z
    .object({
      name: z.string().optional(),
      group: z.string().optional(),
      kind: z.string().optional(),
      uid: z.string().optional(),
      retryAfterSeconds: z.number().optional(),
      causes: z.array(Cause).nullish(),
    })
    .nullish(),
});

/** Returns `undefined` if the document is not a Status. */
export function hideInStatus(document: unknown): unknown {
  const status = Status.safeParse(document).data;
  return status && maskStatus(status);
}

/** Statuses whose messages only say who may not do what, what does not exist, or which fields are in conflict. */
const harmless = new Set([401, 404, 409, 429]);
const byRoles = /^secrets (?:"[^"]*" )?is forbidden: User "[^"]*" cannot /;

/** Removes messages that may quote the Secret: those of validation and of webhooks. */
function maskStatus({ message = "", details, ...status }: z.output<typeof Status>): unknown {
  const { code = 0 } = status;
  const tells = status.status === "Success" || harmless.has(code) || (code === 403 && byRoles.test(message));
  const causes = details?.causes?.map(({ message: words, ...cause }) => ({
    ...cause,
    message: tells ? words : "(not shown, because it may quote the Secret)",
  }));
  const fieldsOf = causes?.flatMap(({ field }) => field ?? []) ?? [];
  const about = fieldsOf.length > 0 ? ` for its ${[...new Set(fieldsOf)].join(", ")}` : "";
  const unsaid = `the API server rejected the Secret${about}; its message is not shown, because it may quote a value`;
  return {
    apiVersion: "v1",
    metadata: {},
    ...toStatus(code, tells ? message : unsaid),
    ...status,
    ...(details && { details: { ...details, ...(causes && { causes }) } }),
  };
}
