/**
 * A process of its own that sends deliveries at a steady rate, whether or not the earlier ones have been answered: what a
 * slow server costs is then seen in the latencies, which count from the moment a delivery was due.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import type { Delivery } from "./delivery.ts";
import { quantile } from "./measurement.ts";

export interface Order {
  readonly url: string;
  readonly perSecond: number;
  readonly seconds: number;
  /** Before that, and not counted: code gets warm and connections are opened. */
  readonly warmSeconds: number;
  /** Kept alive, as by a proxy; what finds none free waits, and its latency counts. */
  readonly connections: number;
  /** Sent in turn. */
  readonly deliveries: readonly Delivery[];
}

export interface Sent {
  readonly sent: number;
  /** Answered with 202. */
  readonly accepted: number;
  /** Anything else, by status or error → how often. */
  readonly others: Readonly<Record<string, number>>;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** By how much the sender itself was late at the worst, milliseconds: it shares the machine. */
  readonly latest: number;
}

/** So many unanswered ones are more than any server should let come; what would be sent beyond that is lost. */
const mostInFlight = 5_000;
const answerWithinMs = 10_000;

process.stdout.write(
  `${JSON.stringify(await send(JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as Order))}\n`,
);

async function send({ url, perSecond, seconds, warmSeconds, connections, deliveries }: Order): Promise<Sent> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const warm = perSecond * warmSeconds;
  const total = warm + perSecond * seconds;
  const latencies: number[] = [];
  const others: Record<string, number> = {};
  let [begun, accepted, inFlight, latest] = [0, 0, 0, 0];
  const over = Promise.withResolvers<undefined>();
  const startedAt = performance.now();

  function finish(dueAt: number, outcome: string, counts: boolean): void {
    inFlight--;
    if (counts && outcome === "202") {
      accepted++;
      latencies.push(performance.now() - dueAt);
    } else if (counts) others[outcome] = (others[outcome] ?? 0) + 1;
    if (begun === total && inFlight === 0) over.resolve(undefined);
  }

  function sendOne(dueAt: number): void {
    const { body, headers } = deliveries[begun % deliveries.length] as Delivery;
    const counts = ++begun > warm;
    inFlight++;
    if (inFlight > mostInFlight) return finish(dueAt, "not sent: too many unanswered", counts);
    const req = request(url, {
      method: "POST",
      agent,
      headers: { ...headers, "x-gitea-delivery": randomUUID(), "content-length": Buffer.byteLength(body) },
      signal: AbortSignal.timeout(answerWithinMs),
    });
    let outcome = "no answer";
    req.once("response", (res) => {
      outcome = String(res.statusCode);
      res.on("error", () => (outcome = "cut off")).resume();
    });
    req.on("error", (error: NodeJS.ErrnoException) => (outcome = error.code ?? error.name));
    req.once("close", () => finish(dueAt, outcome, counts));
    req.end(body);
  }

  const timer = setInterval(() => {
    const elapsed = performance.now() - startedAt;
    const due = Math.min(total, Math.floor((elapsed * perSecond) / 1_000));
    while (begun < due) {
      const dueAt = startedAt + (begun * 1_000) / perSecond;
      if (begun >= warm) latest = Math.max(latest, performance.now() - dueAt);
      sendOne(dueAt);
    }
    if (begun === total) clearInterval(timer);
  }, 1);
  await over.promise;
  agent.destroy();
  const at = (share: number) => quantile(latencies, share) ?? NaN;
  return { sent: total - warm, accepted, others, p50: at(0.5), p99: at(0.99), max: at(1), latest };
}
