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

async function send({ url, perSecond, seconds, deliveries }: Order): Promise<Sent> {
  const agent = new Agent({ keepAlive: true, maxSockets: 512 });
  const total = perSecond * seconds;
  const latencies: number[] = [];
  const others: Record<string, number> = {};
  let [begun, accepted, inFlight, latest] = [0, 0, 0, 0];
  const over = Promise.withResolvers<undefined>();
  const startedAt = performance.now();

  function finish(dueAt: number, outcome: string): void {
    inFlight--;
    if (outcome === "202") {
      accepted++;
      latencies.push(performance.now() - dueAt);
    } else others[outcome] = (others[outcome] ?? 0) + 1;
    if (begun === total && inFlight === 0) over.resolve(undefined);
  }

  function sendOne(dueAt: number): void {
    const { body, headers } = deliveries[begun % deliveries.length] as Delivery;
    begun++;
    inFlight++;
    if (inFlight > mostInFlight) return finish(dueAt, "not sent: too many unanswered");
    const req = request(url, {
      method: "POST",
      agent,
      headers: { ...headers, "x-gitea-delivery": randomUUID(), "content-length": Buffer.byteLength(body) },
      signal: AbortSignal.timeout(answerWithinMs),
    });
    req.once("response", (res) => {
      res.resume();
      res.once("close", () => finish(dueAt, String(res.statusCode)));
    });
    req.once("error", (error: NodeJS.ErrnoException) => finish(dueAt, error.code ?? error.name));
    req.end(body);
  }

  const timer = setInterval(() => {
    const elapsed = performance.now() - startedAt;
    const due = Math.min(total, Math.floor((elapsed * perSecond) / 1_000));
    while (begun < due) {
      const dueAt = startedAt + (begun * 1_000) / perSecond;
      latest = Math.max(latest, performance.now() - dueAt);
      sendOne(dueAt);
    }
    if (begun === total) clearInterval(timer);
  }, 1);
  await over.promise;
  agent.destroy();
  const at = (share: number) => quantile(latencies, share) ?? NaN;
  return { sent: total, accepted, others, p50: at(0.5), p99: at(0.99), max: at(1), latest };
}
