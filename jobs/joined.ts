/**
 * Why a deployment is to be reconciled, beside its job: requests join a job that waits, take the place of one that waits for
 * another try, and of those that follow a running one the last is kept. None of their causes may get lost by that: what one
 * finds done already, another has to do. They are remembered until a job that knew of them has come to its end.
 */
import type { Redis } from "ioredis";
import type { Cause, ReconcileRequest } from "../src/model.ts";
import { deduplicationId } from "./bullmq.ts";
import { evaluate, prepare } from "./scripts.ts";
import { urgencyOf } from "./fairness.ts";
import { causesKey } from "./keys.ts";

/** The work takes far less; what nobody ever comes for goes then. */
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

export interface Joined {
  /** The request with all causes that were asked by until now, also by jobs that came to no end. */
  take(request: ReconcileRequest): Promise<ReconcileRequest>;
  /** It came to its end. What is asked for meanwhile stays. */
  settle(request: ReconcileRequest): Promise<void>;
}

export function createJoined({ connection, prefix }: JoinedDeps): Joined {
  return {
    async take(request) {
      const subject = deduplicationId(request);
      const [asked, taken] = [causesKey(prefix, subject, "asked"), causesKey(prefix, subject, "taken")];
      const known = (await evaluate(connection, take, [asked, taken], [rememberedForS])) as Cause[];
      const causes = [...new Set([request.cause, ...known])];
      const [cause = request.cause, ...also] = causes.toSorted(
        (a, b) => urgencyOf({ ...request, cause: a }) - urgencyOf({ ...request, cause: b }),
      );
      return also.length > 0 ? { ...request, cause, also } : request;
    },
    async settle(request) {
      await connection.del(causesKey(prefix, deduplicationId(request), "taken"));
    },
  };
}
