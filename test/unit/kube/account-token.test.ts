import { expect, test } from "vitest";
import { ApiError, PreviewRefusedError } from "../../../src/errors.ts";
import { createAccountToken } from "../../../src/kube/account-token.ts";

const minute = 60_000;

function useToken() {
  const state: { now: number; error?: Error | undefined } = { now: 0 };
  const asked: number[] = [];
  const token = createAccountToken(
    { namespace: "shop", name: "preview" },
    {
      serviceAccounts: {
        async createToken(_namespace, _name, { audience, seconds }) {
          expect(audience).toBeUndefined();
          asked.push(seconds);
          if (state.error) throw state.error;
          return `token-${asked.length}`;
        },
      },
      whose: "the server",
      now: () => state.now,
    },
  );
  return { token, state, asked };
}

test("a token serves all runs for five minutes, and simultaneous callers request it once", async () => {
  const { token, state, asked } = useToken();
  expect(await Promise.all([token.get(), token.get(), token.get()])).toEqual(["token-1", "token-1", "token-1"]);
  state.now += 4 * minute;
  expect(await token.get()).toBe("token-1");
  state.now += 2 * minute;
  expect(await token.get()).toBe("token-2");
  expect(asked).toEqual([600, 600]);
});

test("a rejected token is not used again", async () => {
  const { token } = useToken();
  await token.get();
  token.drop();
  expect(await token.get()).toBe("token-2");
});

test("while the API server does not respond, a token is used until it expires", async () => {
  const { token, state } = useToken();
  await token.get();
  state.error = new ApiError(0, "no answer");
  state.now += 8 * minute;
  expect(await token.get()).toBe("token-1");
  state.now += 2 * minute;
  await expect(token.get()).rejects.toThrow("no answer");
  state.error = undefined;
  expect(await token.get()).toMatch(/^token-/);
});

test("a permanent failure is reported as one, with what to do", async () => {
  const { token, state } = useToken();
  state.error = new ApiError(404, 'serviceaccounts "preview" not found');
  await expect(token.get()).rejects.toThrow(PreviewRefusedError);
  await expect(token.get()).rejects.toThrow("needs the service account shop/preview");
  state.error = new ApiError(403, "forbidden");
  await expect(token.get()).rejects.toThrow(
    "the server is not allowed to create a token for the service account shop/preview",
  );
  await expect(token.get()).rejects.toThrow("serviceaccounts/token");
});
