/**
 * Stores the last deliveries of each forge in Redis, for `towline get deliveries`, `towline trace` and the page. This
 * is history only: if a record cannot be written, no work is lost.
 */
import type { Redis } from "ioredis";
import { z } from "zod";
import { DeliveryRecord } from "../model/delivery-record.ts";
import type { Receipt } from "../model/receipt.ts";
import { parseJson } from "../kit/json.ts";
import type { Logger } from "../log.ts";
import type { GitEvent } from "../model.ts";
import { reposOfUrls, withoutLogin } from "../model/repo-url.ts";
import { createBufferedWriter } from "./buffered-writer.ts";
import { createReadiness, withinDeadline } from "./connection.ts";

export interface DeliveriesDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
  readonly log: Logger;
}

/** A delivery and its response. */
export interface AnsweredDelivery {
  readonly forge: string;
  readonly at: number;
  readonly ms: number;
  readonly status: number;
  readonly event?: GitEvent | undefined;
  readonly receipt?: Receipt | undefined;
  readonly refused?: string | undefined;
}

export interface Deliveries {
  /** Returns at once and never throws. */
  record(delivery: AnsweredDelivery): void;
  /** Newest first. Throws QueueUnavailableError. */
  latest(forge: string): Promise<readonly DeliveryRecord[]>;
  /** The event of a delivery, to replay it; `undefined` if it is not stored. Throws QueueUnavailableError. */
  event(forge: string, delivery: string): Promise<GitEvent | undefined>;
  /** Writes pending records. */
  flush(): Promise<void>;
}

/**
 * Anyone can send unauthenticated requests: a few of them are kept in a separate list, so that they evict nothing else.
 */
const kept = { genuine: 200, refused: 20 } as const;
type Kind = keyof typeof kept;
const keepMs = 7 * 24 * 3_600_000;
const mostNamed = 50;
const longest = 300;
const line = z.string().max(2_000);
const repo = { repoUrls: z.array(line).max(20), repoName: line };

/** The content of an event, except its origin and its files. */
const EventAgain = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("push"),
    ...repo,
    ref: line,
    change: z.enum(["created", "updated", "deleted"]),
    after: line.optional(),
    others: z.array(line).max(50).optional(),
    defaultBranch: line.optional(),
    sender: line.optional(),
  }),
  z.object({
    kind: z.literal("pull-request"),
    ...repo,
    number: z.int(),
    action: z.enum(["opened", "updated", "reopened", "retargeted", "closed", "draft-changed", "other"]),
    baseBranch: line,
    head: line,
    fork: z.boolean(),
  }),
  z.object({
    kind: z.literal("merge-group"),
    ...repo,
    commit: line,
    branch: line,
    base: line,
    ended: z.boolean(),
  }),
  z.object({ kind: z.literal("rerun"), ...repo, commit: line }),
]);

const Replayable = DeliveryRecord.extend({ again: EventAgain.optional().catch(undefined) });

export function createDeliveries({ connection, prefix, log }: DeliveriesDeps): Deliveries {
  const ready = createReadiness(connection);
  const keyOf = (forge: string, kind: Kind) => `${prefix}:deliveries:${kind}:${forge}`;
  const writer = createBufferedWriter<Unwritten>({
    ...{ connection, ready, log, what: "deliveries" },
    write(pipeline, key, records, most) {
      pipeline
        .lpush(key, ...records.map(toJson))
        .ltrim(key, 0, most - 1)
        .pexpire(key, keepMs);
    },
  });

  async function read(forge: string, kinds: readonly Kind[]): Promise<string[]> {
    const lists = await withinDeadline("return the deliveries", 2_000, async (signal) => {
      await ready(signal);
      return Promise.all(kinds.map((kind) => connection.lrange(keyOf(forge, kind), 0, kept[kind] - 1)));
    });
    return lists.flat();
  }

  return {
    flush: writer.flush,
    record(delivery) {
      const kind = delivery.refused === undefined ? "genuine" : "refused";
      writer.add(keyOf(delivery.forge, kind), toUnwritten(delivery), kept[kind]);
    },
    async latest(forge) {
      const oldest = Date.now() - keepMs;
      return (await read(forge, Object.keys(kept) as Kind[]))
        .flatMap((json) => parse(DeliveryRecord, json) ?? [])
        .filter(({ at }) => at > oldest)
        .sort((a, b) => b.at - a.at);
    },
    async event(forge, delivery) {
      const records = (await read(forge, ["genuine"])).flatMap((json) => parse(Replayable, json) ?? []);
      const newest = records
        .filter((record) => record.delivery === delivery.slice(0, longest) && record.again !== undefined)
        .sort((a, b) => b.at - a.at)[0];
      if (newest?.again === undefined) return undefined;
      const origin = { forge, delivery };
      if (newest.again.kind !== "push") return { ...newest.again, ...origin };
      // The files are not stored, so any file may have changed.
      return { ...newest.again, ...origin, changed: { complete: false, paths: [] } };
    },
  };
}

/** What is kept until it is written or evicted: nothing large, and nothing that is expensive to compute. */
type Unwritten = ReturnType<typeof toUnwritten>;

function toUnwritten({ forge, at, ms, status, event, receipt, refused }: AnsweredDelivery) {
  const ignored = receipt?.ignored ?? [];
  return {
    again: event && refused === undefined ? toStored(event) : undefined,
    v: 1,
    forge,
    delivery: event?.delivery.slice(0, longest),
    at,
    ms,
    status,
    event: event?.kind ?? "none",
    repoName: event && "repoName" in event ? event.repoName.slice(0, longest) : undefined,
    ref: (event?.kind === "push" ? event.ref : event?.kind === "merge-group" ? event.branch : undefined)?.slice(
      0,
      longest,
    ),
    commit: event && commitOf(event),
    others: event?.kind === "push" ? event.others : undefined,
    pullRequest: event?.kind === "pull-request" ? event.number : undefined,
    refused: refused?.slice(0, longest),
    reason: receipt?.reason?.slice(0, longest),
    matched: receipt?.matched ?? 0,
    deployments: (receipt?.deployments ?? []).slice(0, mostNamed),
    including: receipt?.including?.slice(0, mostNamed),
    fluxSources: receipt?.flux?.sources.slice(0, mostNamed),
    previews: receipt?.previews,
    queued: receipt?.queued ?? 0,
    ignored: ignored
      .slice(0, mostNamed)
      .map(({ deployment, reason }) => ({ deployment, reason: reason.slice(0, longest) })),
    ignoredMore: Math.max(0, ignored.length - mostNamed),
  };
}

/** Without its files, and without a login that a host may put into its URLs: whoever reads Redis must not get it. */
function toStored(event: GitEvent) {
  const repoUrls = "repoUrls" in event ? event.repoUrls.map(withoutLogin) : undefined;
  return { ...event, ...(repoUrls && { repoUrls }), changed: undefined };
}

function commitOf(event: GitEvent): string | undefined {
  switch (event.kind) {
    case "push":
      return event.after;
    case "pull-request":
      return event.head;
    case "merge-group":
    case "rerun":
      return event.commit;
    default:
      return undefined;
  }
}

function toJson(unwritten: Unwritten): string {
  const again = unwritten.again && EventAgain.safeParse(unwritten.again).data;
  return JSON.stringify({ ...unwritten, again, repos: reposOf(unwritten), replayable: again && true });
}

/** Only if it has to be known of which others it may be: `repoName` is the same on every host. */
function reposOf({ again: event, matched, deployments }: Unwritten): readonly string[] | undefined {
  return event?.kind === "push" && matched > deployments.length ? [...reposOfUrls(event.repoUrls)] : undefined;
}

/** Returns `undefined` for records of another version. */
function parse<T>(schema: z.ZodType<T>, json: string): T | undefined {
  return schema.safeParse(parseJson(json)).data;
}
