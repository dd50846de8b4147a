/**
 * Values of Secrets that a preview never saw are hidden, unless the project itself contains them: hiding those would
 * confirm a guess.
 */
import { expect, test } from "vitest";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { withoutSaid } from "../../../src/preview/said-values.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const password = "correct-horse-battery";
const base64 = (text: string) => Buffer.from(text).toString("base64");
const configMap = (data: unknown) =>
  JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data });
const guessing = (...guesses: string[]) =>
  anObject({ new: true, rendered: configMap({ guesses, list: guesses.join(", "), code: base64(guesses.join("\n")) }) });
const toldOf = (result: Parameters<typeof aResult>[0], maskedValues: string[], knownSecrets: string[] = []) =>
  JSON.stringify(describeDiff(aResult(result), { knownSecrets, maskedValues, prune: false, manifests: true }));

test("a list of guesses looks the same, whether one of them is right or none", () => {
  const guesses = ["hunter2-hunter2", password, "letmein-letmein"];
  const right = toldOf({ objects: [guessing(...guesses)] }, [password, "another-value"]);
  const wrong = toldOf({ objects: [guessing(...guesses)] }, ["another-value"]);

  expect(right).toBe(wrong);
  expect(right).toContain(password);
});

test("live values and API server messages are hidden as long as the project does not contain the value", () => {
  const live = anObject({
    rendered: configMap({ url: "db:new" }),
    changes: [{ type: "update", jsonPath: "data.url", oldValue: `db:${password}`, newValue: "db:new" }],
  });
  const errors = [{ ref: live.ref, message: `denied, because of ${password}` }];

  const told = toldOf({ objects: [live], errors }, [password]);

  expect(told).toContain("db:new");
  expect(told).not.toContain(password);
});

test("if part of a value is guessed, the rest stays hidden", () => {
  const value = `user: a-user-of-the-shop\npassword: ${password}\n`;
  const live = anObject({
    rendered: configMap({ url: "a-user-of-the-shop" }),
    changes: [{ type: "update", jsonPath: "data.url", oldValue: password, newValue: "a-user-of-the-shop" }],
  });

  const told = toldOf({ objects: [live] }, [value]);

  expect(told).toContain("a-user-of-the-shop");
  expect(told).not.toContain(password);
});

test("logins and the values of the project's own Secrets are hidden, even if the project contains them", () => {
  const secret = anObject({
    ref: { version: "v1", kind: "Secret", name: "login" },
    new: true,
    rendered: JSON.stringify({ kind: "Secret", stringData: { password } }),
  });

  const told = toldOf({ objects: [secret, guessing(password, "login-of-git")] }, [password], ["login-of-git"]);

  expect(told).not.toContain(password);
  expect(told).not.toContain("login-of-git");
});

test("of many values those that the project contains are found", () => {
  const values = Array.from({ length: 1_500 }, (_, i) => `value-number-${i}-of-many`);
  const said = [values[17], values[1_234]];

  const left = withoutSaid(values, [guessing(...said.map(String))]);

  expect(left).toEqual(values.filter((value) => !said.includes(value)));
});

test("if there are too many values to search for, all of them stay secret and nothing is shown", () => {
  const values = Array.from({ length: 25_000 }, (_, i) => `value-number-${i}-of-many`);

  expect(withoutSaid(values, [guessing(values[3] ?? "")])).toEqual(values);
  expect(toldOf({ objects: [guessing(values[3] ?? "")] }, values)).toContain("too many secret values");
});

test("a project that contains too many values to distinguish has none of them hidden", () => {
  const values = Array.from({ length: 800 }, (_, i) => `value-number-${i}-of-many`);

  expect(withoutSaid(values, [guessing(...values)])).toEqual([]);
});
