/** The deliveries that GitHub recorded for a webhook, for three days: https://docs.github.com/rest/repos/webhooks */
import { z } from "zod";
import type { DeliveryAttempt } from "../../model.ts";
import type { GithubAnswer } from "./problem.ts";
import { unsweptEvents } from "./webhook.ts";

/** Without request and response, which would be one request for each. */
const Attempts = z.array(
  z.object({
    /** GitHub announces 64 bits; a number that JavaScript cannot represent names another attempt, or none. */
    id: z.number(),
    guid: z.string(),
    delivered_at: z.string(),
    redelivery: z.boolean(),
    status: z.string(),
    status_code: z.int(),
    event: z.string(),
    repository_id: z.number().nullish(),
  }),
);

/** GitHub's words for deliveries without a response: "failed to connect to host", "timed out", "Service Timeout" … */
const unanswered = /connect|timed? ?out|certificate|\bssl\b|resolve/i;

type Attempt = z.infer<typeof Attempts>[number];

const perPage = 100;
/** Newest first: of a webhook with more deliveries, the oldest are not seen. */
const maxPages = 10;

export interface ListDeliveries {
  readonly ask: (parameters: Readonly<Record<string, unknown>>) => Promise<GithubAnswer>;
  readonly read: <T extends z.ZodType>(type: T, answer: GithubAnswer) => z.infer<T>;
}

/** The attempts since then, newest first. Throws ForgeError. */
export async function listAttempts({ ask, read }: ListDeliveries, since: number): Promise<readonly DeliveryAttempt[]> {
  const found: DeliveryAttempt[] = [];
  let cursor: string | undefined;
  for (let page = 1; page <= maxPages; page++) {
    const answer = await ask({ per_page: perPage, ...(cursor !== undefined && { cursor }) });
    const attempts = read(Attempts, answer)
      .filter(({ id }) => Number.isSafeInteger(id))
      .map(toAttempt);
    found.push(...attempts.filter(({ at }) => at >= since));
    cursor = findCursor(answer);
    if (cursor === undefined || attempts.some(({ at }) => at < since)) break;
  }
  return found;
}

function toAttempt({
  id,
  guid,
  delivered_at,
  redelivery,
  status,
  status_code,
  event,
  ...more
}: Attempt): DeliveryAttempt {
  return {
    ...{ id, delivery: guid, at: Date.parse(delivered_at), isRepeat: redelivery },
    ok: status === "OK",
    // A failed connection has a code as well (502 in GitHub's own example), which no server sent.
    ...(!unanswered.test(status) && { code: status_code }),
    isPush: event === "push",
    isUnswept: unsweptEvents.has(event),
    ...(typeof more.repository_id === "number" && { repository: more.repository_id }),
  };
}

/** GitHub's list has no page numbers: each page names the next one in its `Link`. */
function findCursor({ headers }: GithubAnswer): string | undefined {
  const next = /<([^>]+)>;\s*rel="next"/.exec(String(headers["link"] ?? ""))?.[1];
  return (next && URL.parse(next)?.searchParams.get("cursor")) || undefined;
}
