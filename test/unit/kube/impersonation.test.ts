import { expect, test } from "vitest";
import { ApiError } from "../../../src/errors.ts";
import { createImpersonationCheck } from "../../../src/kube/impersonation.ts";

const words = 'serviceaccounts "a" is forbidden: User "towline" cannot impersonate resource "serviceaccounts"';

/** An API server that answers with the errors it is given, one after the other, and remembers who asked. */
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

test("who may not be impersonated is told in the API server's words, until it is allowed", async () => {
  const { refused } = useCheck(new ApiError(403, `GET /version: 403 ${words}`), undefined);
  expect(await refused("a")).toBe(words);
  expect(await refused("a")).toBeUndefined();
});

test("an API server that cannot say, or forbids something else, refuses nobody", async () => {
  const { refused } = useCheck(new ApiError(0, "no answer"), new ApiError(403, 'GET /version: 403 User "impersonate"'));
  expect([await refused("a"), await refused("a")]).toEqual([undefined, undefined]);
});

test("what is allowed is asked again only after a while, for each account by itself", async () => {
  const { asked, time, refused } = useCheck();
  for (const user of ["a", "b", "a", "b"]) await refused(user);
  expect(asked).toEqual(["a", "b"]);
  time.now = 6 * 60_000;
  await refused("a");
  expect(asked).toEqual(["a", "b", "a"]);
});
