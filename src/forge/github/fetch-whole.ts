import { readBody } from "../answer-body.ts";

/**
 * A `fetch` that resolves after it has read the whole response: a failure while reading is then an error, where octokit
 * would continue with the part it received. Follows no redirect, so that the token stays with its host.
 */
export function createFetchWhole(onAnswer?: (headers: Headers) => void) {
  return async function fetchWhole(url: string, init?: RequestInit): Promise<Response> {
    const answer = await fetch(url, { ...init, redirect: "manual" });
    const { status, headers } = answer;
    onAnswer?.(headers);
    const body = await readBody(answer);
    // A response whose status allows no body cannot be constructed even with an empty one.
    return new Response(body.length === 0 ? null : body, { status, headers });
  };
}
