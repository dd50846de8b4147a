import { expect, test } from "vitest";
import { createLineReader, createTail, toPlainText } from "../../../src/kluctl/output.ts";
import { isProgress, lastWords } from "../../../src/kluctl/progress.ts";
import { toStableWords } from "../../../src/kluctl/stable-words.ts";
import { cpuMs } from "../../support/cpu-time.ts";

test.for([
  "Loading kluctl project",
  "Getting 9 additional remote objects",
  "Getting remote objects by discriminator: Failed with 2 errors",
  "Updating git cache for https://git.example.com/org/library",
  "namespace: Initializing",
  "services/api: Applying 2 objects",
  "app: ...applied 10 of 20 objects",
  "app: Waiting for Deployment/shop/api to get ready... (5s elapsed)",
  "app: Still waiting for Deployment/shop/api to get ready... (15s elapsed)",
  "app: Finished waiting for Deployment/shop/api (7s elapsed)",
  "app: Deleting 3 hooks before hook execution",
  "Waiting on barrier: database",
  "Finished waiting",
])("%j is progress", (line) => {
  expect(isProgress(line)).toBe(true);
});

test("a very long line is handled in less than a second", () => {
  const startedAt = cpuMs();
  expect(lastWords("app: Waiting for x: ".repeat(50_000))).toContain("app: Waiting");
  expect(cpuMs() - startedAt).toBeLessThan(1_000);
});

test.for([
  "command failed",
  "1 error occurred:",
  "No discriminator configured for target",
  "target prod not existent",
  "",
])("%j is not progress", (line) => {
  expect(isProgress(line)).toBe(false);
});

test("the last words are all lines after the progress", () => {
  const stderr = "Loading kluctl project\nsome warning\nRendering templates\n2 errors occurred:\n\t* one\n\t* two\n\n";
  expect(lastWords(stderr)).toBe("2 errors occurred:\n\t* one\n\t* two");
  expect(lastWords("open /x: permission denied\n")).toBe("open /x: permission denied");
  expect(lastWords("Rendering templates\n")).toBe("");
  expect(lastWords("x".repeat(20_000))).toBe(`${"x".repeat(10_000)}\n… (cut)`);
});

test("the same error has the same text in each run", () => {
  const jobDir = "/data/work/7-abc";
  const projectDir = "/data/checkouts/7-xyz/deploy";
  const text = [
    `failed to load includes for ${projectDir}: ${projectDir}/nope does not exist`,
    `open ${jobDir}/base/0/project-328/rendered221/0/app/x.yaml: no such file`,
    `in ${jobDir}/base/0/git-cloned/library-HEAD-435062394/deployment.yml`,
  ].join("\n");

  const overrides = [{ path: "/data/merges/7/clone", name: "git.example.com/org/library" }];
  expect(toStableWords("/data/merges/7/clone/app/a.yml: no", { jobDir, projectDir, overrides })).toBe(
    "git.example.com/org/library/app/a.yml: no",
  );
  expect(toStableWords(text, { jobDir, projectDir })).toBe(
    "failed to load includes for the project: nope does not exist\nopen app/x.yaml: no such file\nin library-HEAD/deployment.yml",
  );
});

test("terminal escapes, control characters and text direction marks are removed", () => {
  expect(
    toPlainText(
      "\u001b[31mred\u001b[0m \u001b]8;;http://x\u0007link\u001b]8;;\u0007 \u0000\u0008\u202e\u2066tab\tline\n",
    ),
  ).toBe("red link tab\tline\n");
});

test("lines are assembled from chunks, cut when too long, and dropped after the limit", () => {
  const lines: string[] = [];
  const reader = createLineReader({ lineLength: 5, lines: 6 }, (line) => lines.push(line));
  const snow = Buffer.from("sn☃w\n");

  reader.push(Buffer.from("one\r\ntw"));
  reader.push(Buffer.from("o\n\nlonger than that\rx\n"));
  reader.push(snow.subarray(0, 3));
  reader.push(snow.subarray(3));
  reader.push(Buffer.from("sixth\nseventh\n"));
  reader.end();

  expect(lines).toEqual(["one", "two", "longe…", "x", "sn☃w", "(further output is not shown)"]);
});

test("the rest without a newline is a line, too", () => {
  const lines: string[] = [];
  const reader = createLineReader({ lineLength: 5, lines: 10 }, (line) => lines.push(line));
  for (let i = 0; i < 100; i++) reader.push(Buffer.from("0123456789"));
  reader.end();
  expect(lines).toEqual(["01234…"]);
});

test("a tail keeps only the end", () => {
  const tail = createTail(10);
  for (const part of ["0123456789abcdef", "gh", "ij"]) tail.push(Buffer.from(part));
  expect(tail.text()).toBe("abcdefghij");
});
