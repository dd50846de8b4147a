import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { towline } from "../../support/command-line.ts";

const run = promisify(execFile);

test("bash completes commands, options and their values", async () => {
  const { out: script, code } = await towline(["completion", "bash"]);
  expect(code).toBe(0);
  const complete = async (...words: string[]) => {
    const asked = `COMP_WORDS=(towline "$@"); COMP_CWORD=$#; _towline; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await run("bash", ["--norc", "-c", `${script}\n${asked}`, "bash", ...words], {
      cwd: "/proc/self",
    });
    return stdout.trim().split("\n");
  };
  expect(await complete("ge")).toEqual(["get"]);
  expect(await complete("get", "")).toEqual([
    "deployments",
    "previews",
    "deliveries",
    "queue",
    "notifications",
    "--help",
  ]);
  expect(await complete("get", "deployments", "--wa")).toEqual(["--watch"]);
  expect(await complete("get", "deployments", "shop/prod", "--wat")).toEqual(["--watch"]);
  expect(await complete("get", "deployments", "--output", "j")).toEqual(["json"]);
  expect(await complete("get", "deployments", "-o", "y")).toEqual(["yaml"]);
  expect(await complete("preview", "-o", "")).toEqual(["text", "markdown", "json", "yaml"]);
  expect(await complete("completion", "f")).toEqual(["fish"]);
  expect(await complete("serve", "--config", "cmdl")).toEqual(["cmdline"]); // a file name
});

test("an unknown shell is refused", async () => {
  expect((await towline(["completion", "tcsh"])).code).toBe(2);
});
