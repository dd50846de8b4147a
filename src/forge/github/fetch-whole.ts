/** As much as one page of long comments can have, and far more than anything else is long. */
const maxAnswerBytes = 32_000_000;

/**
 * A `fetch` that has read the answer when it resolves, up to a limit: whatever goes wrong while reading is an error
 * then, where octokit would go on with the half it got. Follows no redirect, so that the token stays with its host.
 */
export async function fetchWhole(url: string, init?: RequestInit): Promise<Response> {
  const answer = await fetch(url, { ...init, redirect: "manual" });
  const { status, headers } = answer;
  const body = await readWhole(answer);
  // An answer that may not have a body is not even made with an empty one.
  return new Response(body.length === 0 ? null : body, { status, headers });
}

async function readWhole(answer: Response): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += chunk.byteLength;
    // Leaving the loop cancels what is still to come.
    if (size > maxAnswerBytes) throw new Error(`the answer is longer than ${maxAnswerBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}
