/**
 * A separate process that sends deliveries at a steady rate, whether or not the earlier ones have been answered: a slow
 * server then shows in the latencies, which count from the moment a delivery was due.
 *
 * It speaks HTTP by hand: node:http would use a quarter of a core for this, of the two cores that the server shares
 * with it.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import type { Delivery } from "./delivery.ts";
import { quantile } from "./measurement.ts";

export interface Order {
  readonly url: string;
  readonly perSecond: number;
  readonly seconds: number;
  /** Warm-up that is not counted: code is compiled and connections are opened. */
  readonly warmSeconds: number;
  /** Kept alive, as by a proxy. A delivery that finds no free connection waits, and its latency includes the wait. */
  readonly connections: number;
  /** Sent in rotation. */
  readonly deliveries: readonly Delivery[];
}

export interface Sent {
  readonly sent: number;
  /** Number of deliveries answered with 202. */
  readonly accepted: number;
  /** Number of all others, by status or error. */
  readonly others: Readonly<Record<string, number>>;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** Worst delay of the sender itself in milliseconds, which shares the machine with the server. */
  readonly latest: number;
  /** Average number of cores used by the sender. */
  readonly cores: number;
}

interface Due {
  readonly dueAt: number;
  readonly counts: boolean;
  readonly delivery: Delivery;
}

/** No server should leave this many unanswered; deliveries beyond that are not sent and count as lost. */
const mostInFlight = 5_000;
const answerWithinMs = 10_000;

process.stdout.write(
  `${JSON.stringify(await send(JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as Order))}\n`,
);

async function send(order: Order): Promise<Sent> {
  const { url, perSecond, seconds, warmSeconds, connections, deliveries } = order;
  const warm = perSecond * warmSeconds;
  const total = warm + perSecond * seconds;
  const latencies: number[] = [];
  const others: Record<string, number> = {};
  let [begun, accepted, inFlight, latest] = [0, 0, 0, 0];
  const over = Promise.withResolvers<undefined>();
  const [startedAt, cpuBefore] = [performance.now(), process.cpuUsage()];

  function finish({ dueAt, counts }: Due, outcome: string): void {
    inFlight--;
    if (counts && outcome === "202") {
      accepted++;
      latencies.push(performance.now() - dueAt);
    } else if (counts) others[outcome] = (others[outcome] ?? 0) + 1;
    if (begun === total && inFlight === 0) over.resolve(undefined);
  }

  const waiting: Due[] = [];
  const all = Array.from({ length: connections }, () => createConnection(new URL(url), finish, () => waiting.shift()));

  function sendOne(dueAt: number): void {
    const delivery = deliveries[begun % deliveries.length] as Delivery;
    const due = { dueAt, delivery, counts: ++begun > warm };
    inFlight++;
    if (inFlight > mostInFlight) return finish(due, "not sent: too many unanswered");
    const free = all.find((one) => one.isFree());
    if (free) free.send(due);
    else waiting.push(due);
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
  const impatience = setInterval(() => {
    const latestStart = performance.now() - answerWithinMs;
    for (const one of all) one.giveUpBefore(latestStart);
  }, 100);
  await over.promise;
  clearInterval(impatience);
  for (const one of all) one.close();
  const { user, system } = process.cpuUsage(cpuBefore);
  const cores = (user + system) / 1_000 / (performance.now() - startedAt);
  const at = (share: number) => quantile(latencies, share) ?? NaN;
  return { sent: total - warm, accepted, others, p50: at(0.5), p99: at(0.99), max: at(1), latest, cores };
}

interface Connection {
  isFree(): boolean;
  send(due: Due): void;
  /** Treats requests begun before this time as unanswered. */
  giveUpBefore(time: number): void;
  close(): void;
}

/** A connection carries one request at a time; after it breaks, the next request opens a new one. */
function createConnection(
  { hostname, port, host, pathname }: URL,
  finish: (due: Due, outcome: string) => void,
  next: () => Due | undefined,
): Connection {
  let socket: Socket | undefined;
  let current: { readonly due: Due; readonly begunAt: number } | undefined;
  let received = "";

  function open(): Socket {
    const opened = connect(Number(port), hostname).setNoDelay(true).setEncoding("latin1");
    opened.on("data", (text: string) => {
      received += text;
      const status = findAnswer(received);
      if (status === undefined) return;
      received = "";
      end(status);
    });
    opened.on("error", (error: NodeJS.ErrnoException) => broken(opened, error.code ?? error.name));
    opened.on("close", () => broken(opened, "cut off"));
    return opened;
  }

  function broken(ended: Socket, why: string): void {
    if (socket !== ended) return;
    socket = undefined;
    ended.destroy();
    received = "";
    end(why);
  }

  function end(outcome: string): void {
    const ended = current?.due;
    current = undefined;
    if (ended) finish(ended, outcome);
    const due = next();
    if (due) begin(due);
  }

  function begin(due: Due): void {
    current = { due, begunAt: performance.now() };
    const { headers, body } = due.delivery;
    const lines = Object.entries({ host, ...headers, "x-gitea-delivery": randomUUID(), "content-length": body.length });
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    // The bodies are ASCII, so characters are bytes.
    (socket ??= open()).write(`POST ${pathname} HTTP/1.1\r\n${head}\r\n${body}`, "latin1");
  }

  return {
    isFree: () => current === undefined,
    send: begin,
    giveUpBefore(time) {
      if (socket && current && current.begunAt < time) broken(socket, "no answer");
    },
    close() {
      const ended = socket;
      socket = undefined;
      ended?.destroy();
    },
  };
}

/** The status of a complete answer. The server sends the length of each. */
function findAnswer(text: string): string | undefined {
  const endOfHead = text.indexOf("\r\n\r\n");
  if (endOfHead === -1) return undefined;
  const length = Number(/^content-length: (\d+)\r?$/im.exec(text.slice(0, endOfHead))?.[1]);
  if (!Number.isInteger(length)) throw new Error(`An answer without a length: ${text.slice(0, endOfHead)}`);
  return text.length >= endOfHead + 4 + length ? text.slice(9, 12) : undefined;
}
