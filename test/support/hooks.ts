/** Calls `towline webhook ensure` in the tests of each host. */
import { expect } from "vitest";
import { towline } from "./command-line.ts";

/** The configured secret, and the URL of the server. */
export const secret = "the-secret-of-this-test";
export const url = "https://towline.example.com";

interface Ensured {
  readonly name: string;
  readonly result: string;
  readonly why: readonly string[];
}

/** Runs it, returns the result for each repository, and checks that the output contains no secret. */
export async function ensure(argv: readonly string[], env: Record<string, string>, hidden: readonly string[] = []) {
  const ran = await towline(["webhook", "ensure", "-o", "json", ...argv], { env });
  for (const value of [secret, ...hidden]) expect(ran.out + ran.err).not.toContain(value);
  const printed = ran.out === "" ? undefined : (JSON.parse(ran.out) as { forges: { results: Ensured[] }[] });
  return { code: ran.code, err: ran.err, results: printed?.forges.flatMap(({ results }) => results) ?? [] };
}
