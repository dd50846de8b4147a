/** Reads a response of the API server to its end. */
import type { IncomingMessage } from "node:http";
import { Refusal } from "./refusal.ts";

export interface WholeAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** Rejects if the response is cut off, and throws Refusal if it is longer than `mostBytes`. */
export async function readAnswer(answer: IncomingMessage, mostBytes: number): Promise<WholeAnswer> {
  try {
    const tooLong = () => new Refusal(502, "the API server's response is too large for a preview");
    const body = await readBytes(answer, mostBytes, tooLong);
    return { status: answer.statusCode ?? 0, headers: answer.headers, body };
  } catch (error) {
    answer.destroy();
    throw error;
  }
}

export async function readBytes(message: IncomingMessage, mostBytes: number, tooLong: () => Error): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  // Keep the connection of a request that is too large: the error response still has to be sent over it.
  for await (const chunk of message.iterator({ destroyOnReturn: false })) {
    length += (chunk as Buffer).length;
    if (length > mostBytes) throw tooLong();
    chunks.push(chunk as Buffer);
  }
  if (!message.complete) throw new Error("the connection was closed before the response was complete");
  return Buffer.concat(chunks, length);
}
