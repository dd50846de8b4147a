/**
 * Stores the causes of a deployment's reconciliation, or of a preview, next to its job. A request joins a waiting job, replaces one that
 * waits for a retry, and of those that follow a running job only the last is kept. No cause may get lost in this: if
 * one cause needs no work, another may. They are stored until a job that knew of them has ended.
 */
import type { Redis } from "ioredis";
import type { Cause, PreviewCause, PreviewRequest, ReconcileRequest } from "../src/model.ts";
import { deduplicationId } from "./bullmq.ts";
import { evaluate, prepare } from "../src/redis/scripts.ts";
import { urgencyOf } from "./fairness.ts";
import { causesKey } from "../src/redis/keys.ts";

/** Much longer than any job; removes causes that no job ever picks up. */
const rememberedForS = 7 * 24 * 3_600;

const take = prepare(`
if redis.call("SUNIONSTORE", KEYS[2], KEYS[2], KEYS[1]) == 0 then return {} end
redis.call("DEL", KEYS[1])
redis.call("EXPIRE", KEYS[2], ARGV[1])
return redis.call("SMEMBERS", KEYS[2])`);

export interface JoinedDeps {
  readonly connection: Redis;
  readonly prefix: string;
}

type JoinedRequest = ReconcileRequest | PreviewRequest;

export interface Joined {
  /** Returns the request with all causes so far, including those of jobs that did not end. */
  take<R extends JoinedRequest>(request: R): Promise<R>;
  /** Call when the job ended. Causes that arrived in the meantime are kept. */
  settle(request: JoinedRequest): Promise<void>;
}

export function createJoined({ connection, prefix }: JoinedDeps): Joined {
  return {
    async take<R extends JoinedRequest>(request: R) {
      const subject = deduplicationId(request);
      const [asked, taken] = [causesKey(prefix, subject, "asked"), causesKey(prefix, subject, "taken")];
      const known = await evaluate(connection, take, [asked, taken], [rememberedForS]);
      return withCauses(request, known as string[]) as R;
    },
    async settle(request) {
      await connection.del(causesKey(prefix, deduplicationId(request), "taken"));
    },
  };
}

function withCauses(request: JoinedRequest, known: readonly string[]): JoinedRequest {
  if (request.kind === "preview") {
    const caused: PreviewCause = "pull-request";
    return known.includes(caused) ? { ...request, cause: caused } : request;
  }
  const causes = [...new Set([request.cause, ...(known as Cause[])])];
  const [cause = request.cause, ...also] = causes.toSorted(
    (a, b) => urgencyOf({ ...request, cause: a }) - urgencyOf({ ...request, cause: b }),
  );
  return also.length > 0 ? { ...request, cause, also } : request;
}
