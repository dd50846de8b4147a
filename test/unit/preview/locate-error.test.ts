import { expect, test } from "vitest";
import { locateError } from "../../../src/preview/locate-error.ts";

const files: Readonly<Record<string, string>> = {
  "prod/app/a.yml": "kind: A\n  name: {{ a.b }}\n",
  "prod/inc/b.yml": "# b\nkind: {{ a.b }}\n",
  "other/app/a.yml": "kind: A\n  name: {{ a.b }}\n",
};
const lineAt = (path: string, line: number) => Promise.resolve(files[path]?.split("\n")[line - 1]);

const frame = (file: string, line: number, text: string) =>
  `  File "${file}", line ${line}, in template\n    ${text}\n`;
const reason = "UndefinedError: 'a' is undefined";

test.each<[string, string, { path: string; line: number } | undefined]>([
  ["a template", frame("app/a.yml", 2, "name: {{ a.b }}") + reason, { path: "prod/app/a.yml", line: 2 }],
  [
    "the innermost of several templates",
    frame("app/a.yml", 2, "name: {{ a.b }}") + frame("inc/b.yml", 2, "kind: {{ a.b }}") + reason,
    { path: "prod/inc/b.yml", line: 2 },
  ],
  ["a file that has another line there, such as one of an included project", frame("app/a.yml", 2, "x"), undefined],
  ["a file that does not exist", frame("app/c.yml", 2, "name: {{ a.b }}") + reason, undefined],
  ["a line that does not exist", frame("app/a.yml", 9, "name: {{ a.b }}") + reason, undefined],
  ["a file outside of the repository", frame("../../etc/a.yml", 2, "name: {{ a.b }}") + reason, undefined],
  ["an absolute path", frame("/prod/app/a.yml", 2, "name: {{ a.b }}") + reason, undefined],
  ["a frame without its line", `  File "app/a.yml", line 2, in template`, undefined],
  ["no template at all", "target prod not existent in kluctl project config", undefined],
])("the position of %s", async (_, message, position) => {
  expect(await locateError(`failed rendering template 'x': ${message}`, "prod", lineAt)).toEqual(position);
});

test("a project in the root of the repository has paths without a directory", async () => {
  const message = frame("other/app/a.yml", 2, "name: {{ a.b }}") + reason;
  expect(await locateError(message, "", lineAt)).toEqual({ path: "other/app/a.yml", line: 2 });
});
