/** Sends mutated deliveries to a server and judges each answer. */
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { quantile } from "../bench/measurement.ts";
import { readCorpus, type Sample } from "./corpus.ts";
import { type Mutant, mutate } from "./mutate.ts";
import { createRandom } from "./random.ts";
import { type Answer, send } from "./send.ts";
import { type ServerOptions, startServer } from "./server.ts";
import { createTimes } from "./times.ts";

export interface FuzzOptions extends Omit<ServerOptions, "repositories"> {
  readonly seed: number;
  readonly deliveries: number;
  /** Number of the first delivery, to repeat a single one. */
  readonly from?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, report: FuzzReport) => void) | undefined;
}

export interface Finding {
  /** Number of the delivery of the seed; absent if the finding is about all of them. */
  readonly delivery?: number;
  readonly what: string;
  /** Whether it is only about the time that an answer took, which depends on the machine. */
  readonly isSlow?: true;
}

export interface FuzzReport {
  readonly sent: number;
  /** Number of answers by status, or by the reason why there was none. */
  readonly answers: ReadonlyMap<string, number>;
  readonly findings: readonly Finding[];
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly longest: number;
  /** Memory of the server, sampled during the run. */
  readonly bytes: readonly number[];
}

const atOnce = 8;
const slowMs = 1_000;
const ordinaryBytes = 1024 * 1024;
const mostFindings = 50;
const mostSlow = 500;
const sampleMs = 500;
/** More than the variation between garbage collections, less than a leak of a kilobyte per delivery. */
const growthAllowed = 1.3;
const bytesAllowed = 64 * 1024 * 1024;

export async function playFuzz(options: FuzzOptions): Promise<FuzzReport> {
  const corpus = atHome(readCorpus());
  const server = await startServer({ ...options, repositories: repositoriesOf(corpus) });
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
  const { deliveries, signal, onProgress } = options;
  const first = options.from ?? 0;
  const answers = new Map<string, number>();
  const findings: Finding[] = [];
  const times = createTimes();
  const [bytes, slow]: [number[], number[]] = [[], []];
  let [next, sent] = [first, 0];

  const find = (finding: Finding) => void (findings.length < mostFindings && findings.push(finding));
  const report = (): FuzzReport => ({
    ...{ sent, answers, findings, bytes },
    p50: times.quantile(0.5),
    p99: times.quantile(0.99),
    longest: times.longest(),
  });
  const isOver = () => next >= first + deliveries || signal?.aborted === true || findings.length >= mostFindings;

  async function sendInTurn(): Promise<void> {
    while (!isOver()) {
      const delivery = next++;
      const mutant = mutantOf(corpus, options.seed, delivery);
      const answer = await send(mutant, server.port, agent);
      sent++;
      if (!mutant.breaksOff) times.add(answer.ms);
      answers.set(String(answer.status), (answers.get(String(answer.status)) ?? 0) + 1);
      const what = judge(mutant, answer);
      if (what !== undefined) find({ delivery, what });
      else if (answer.ms > slowMs && !mutant.breaksOff) slow.push(delivery);
    }
  }

  /**
   * Repeats a slow delivery alone: a busy machine or many at once make any delivery slow, but one that is slow alone is
   * slow because of its content.
   */
  async function sendAlone(delivery: number): Promise<void> {
    const { ms } = await send(mutantOf(corpus, options.seed, delivery), server.port, agent);
    if (ms > slowMs)
      find({
        delivery,
        what: `answered after ${Math.round(ms)} ms while no other delivery was in progress`,
        isSlow: true,
      });
  }

  const sampling = setInterval(() => {
    bytes.push(server.bytes());
    onProgress?.(sent, report());
  }, sampleMs);
  try {
    await Promise.all(Array.from({ length: atOnce }, sendInTurn));
    clearInterval(sampling);
    for (const delivery of slow.slice(0, mostSlow)) await sendAlone(delivery);
    // Work that the last deliveries caused must be done by now, or it counts as a fault.
    await sleep(1_000);
    const trouble = await server.findTrouble();
    if (trouble !== undefined) find({ what: trouble });
    for (const line of server.faults().slice(0, 5)) find({ what: `log line: ${line.slice(0, 500)}` });
    const grown = findGrowth(bytes);
    if (grown !== undefined) find({ what: grown });
    return report();
  } finally {
    clearInterval(sampling);
    agent.destroy();
    await server.stop();
  }
}

/** The delivery with this number; always the same one. */
export function mutantOf(corpus: readonly Sample[], seed: number, delivery: number): Mutant {
  const random = createRandom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(delivery + 1, 0x85ebca6b));
  return mutate(random.pick(corpus), corpus, random);
}

/** Why an answer is a fault of the server. Redis is available all the time, so no 5xx is justified. */
export function judge({ isGenuine, breaksOff, body }: Mutant, { status }: Pick<Answer, "status">): string | undefined {
  if (breaksOff) return undefined;
  // A body that is too large is answered and the connection closed; a client that still writes may only see the reset.
  const mayBeCut = body.length > ordinaryBytes && (status === "ECONNRESET" || status === "EPIPE");
  if (typeof status === "string") return mayBeCut ? undefined : status;
  if (status >= 500) return `answered with ${status}`;
  return isGenuine && status !== 202 ? `a valid delivery was answered with ${status}` : undefined;
}

/** Compares the second quarter with the last one; the first one is the warm-up. */
export function findGrowth(bytes: readonly number[]): string | undefined {
  const quarter = Math.floor(bytes.length / 4);
  if (quarter < 10) return undefined; // too few samples to judge
  const middle = (from: number) => quantile(bytes.slice(from * quarter, (from + 1) * quarter), 0.5) ?? 0;
  const [early, late] = [middle(1), middle(3)];
  if (late <= early * growthAllowed || late - early <= bytesAllowed) return undefined;
  return `memory grew from ${Math.round(early / 1e6)} to ${Math.round(late / 1e6)} MB`;
}

/** Replaces the host names in the samples, so that this machine contacts no host on the internet. */
function atHome(corpus: readonly Sample[]): Sample[] {
  const text = JSON.stringify(corpus).replaceAll(/\b(?:[\w-]+\.)*(?:github|example)\.com\b/g, "git.localhost");
  return JSON.parse(text) as Sample[];
}

function repositoriesOf(corpus: readonly Sample[]): string[] {
  const urls = JSON.stringify(corpus).matchAll(/"(?:clone_url|git_http_url)":"([^"]+)"/g);
  return [...new Set(Array.from(urls, ([, url]) => url ?? ""))].filter((url) => url.startsWith("http")).slice(0, 10);
}
