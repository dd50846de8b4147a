import { readBody } from "../answer-body.ts";

/**
 * A `fetch` that has read the answer when it resolves: whatever goes wrong while reading is an error then, where octokit
 * would go on with the half it got. Follows no redirect, so that the token stays with its host.
 */
export function createFetchWhole(onAnswer?: (headers: Headers) => void) {
  return async function fetchWhole(url: string, init?: RequestInit): Promise<Response> {
    const answer = await fetch(url, { ...init, redirect: "manual" });
    const { status, headers } = answer;
    onAnswer?.(headers);
    const body = await readBody(answer);
    // An answer that may not have a body is not even made with an empty one.
    return new Response(body.length === 0 ? null : body, { status, headers });
  };
}
