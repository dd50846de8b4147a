/** Sends one delivery and returns the answer. */
import { type Agent, type IncomingMessage, request } from "node:http";
import type { Mutant } from "./mutate.ts";

export interface Answer {
  /** The HTTP status, or the reason why there was no answer. */
  readonly status: number | string;
  readonly ms: number;
}

const patienceMs = 30_000;

/** Never rejects. */
export async function send(mutant: Mutant, port: number, agent: Agent): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer["status"]>();
  const from = performance.now();
  try {
    const chunked = mutant.headers.some((name) => name === "Transfer-Encoding");
    const headers = ["Host", `127.0.0.1:${port}`, ...mutant.headers];
    if (!chunked) headers.push("Content-Length", String(mutant.body.length));
    const asked = request({ host: "127.0.0.1", port, agent, method: mutant.method, path: mutant.path, headers });
    asked.setTimeout(patienceMs, () => asked.destroy(new Error("no answer")));
    asked.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    asked.on("response", (answer: IncomingMessage) => {
      answer.resume();
      answer.on("close", () => resolve(answer.statusCode ?? "no status"));
    });
    if (mutant.breaksOff && mutant.body.length > 0) {
      asked.write(mutant.body.subarray(0, -1), () => asked.destroy());
    } else asked.end(mutant.body);
  } catch (error) {
    resolve(`cannot be sent: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
  }
  return { status: await promise, ms: performance.now() - from };
}
