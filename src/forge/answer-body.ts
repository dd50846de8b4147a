/** The maximum size of one page of a hundred long comments; all other responses are far smaller. */
const maxAnswerBytes = 32_000_000;

/**
 * Reads the whole body of a response. Throws if it is larger than the limit, so that an endless response does not fill
 * the memory.
 */
export async function readBody(answer: Response): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.byteLength;
    // Leaving the loop closes the connection.
    if (bytes > maxAnswerBytes) throw new TooLargeError(`the response is larger than ${maxAnswerBytes / 1_000_000} MB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

export class TooLargeError extends Error {
  override name = "TooLargeError";
}
