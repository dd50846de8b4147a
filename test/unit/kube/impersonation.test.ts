import { expect, test } from "vitest";
import { ApiError } from "../../../src/errors.ts";
import { createImpersonationCheck } from "../../../src/kube/impersonation.ts";

const words = 'serviceaccounts "a" is forbidden: User "towline" cannot impersonate resource "serviceaccounts"';

/** An API server that answers with the given errors, one after the other, and records the impersonated users. */
function useCheck(...errors: (ApiError | undefined)[]) {
  const asked: (string | undefined)[] = [];
  const time = { now: 0 };
  const client = {
    request({ as }: { as?: string | undefined }) {
      asked.push(as);
      const error = errors.shift();
      return error ? Promise.reject(error) : Promise.resolve({});
    },
  };
  return { asked, time, refused: createImpersonationCheck({ client, now: () => time.now }) };
}

test("a refused impersonation is reported with the API server's message, until it is allowed", async () => {
  const { refused } = useCheck(new ApiError(403, `GET /version: 403 ${words}`), undefined);
  expect(await refused("a")).toBe(words);
  expect(await refused("a")).toBeUndefined();
});

test("if the API server cannot answer, or forbids something else, no user is refused", async () => {
  const { refused } = useCheck(new ApiError(0, "no answer"), new ApiError(403, 'GET /version: 403 User "impersonate"'));
  expect([await refused("a"), await refused("a")]).toEqual([undefined, undefined]);
});

test("an allowed impersonation is checked again after some minutes, for each account separately", async () => {
  const { asked, time, refused } = useCheck();
  for (const user of ["a", "b", "a", "b"]) await refused(user);
  expect(asked).toEqual(["a", "b"]);
  time.now = 6 * 60_000;
  await refused("a");
  expect(asked).toEqual(["a", "b", "a"]);
});
