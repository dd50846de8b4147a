/** As much as one page of a hundred long comments can have, and far more than anything else is long. */
const maxAnswerBytes = 32_000_000;

/** The whole body of an answer. Throws for one that is larger, so that an answer without an end does not fill the memory. */
export async function readBody(answer: Response): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.byteLength;
    // Leaving the loop ends the connection.
    if (bytes > maxAnswerBytes) throw new TooLargeError(`the response is larger than ${maxAnswerBytes / 1_000_000} MB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

export class TooLargeError extends Error {
  override name = "TooLargeError";
}
