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
  expect(await complete("get", "")).toEqual(["deployments", "previews", "deliveries"]);
  expect(await complete("get", "deployments", "--wa")).toEqual(["--watch"]);
  expect(await complete("get", "deployments", "shop/prod", "-o", "--wat")).toEqual(["--watch"]);
  expect(await complete("get", "deployments", "--output", "j")).toEqual(["json"]);
  expect(await complete("completion", "f")).not.toContain("--config");
});

test("fish is told what each command is for, and an unknown shell is refused", async () => {
  const { out } = await towline(["completion", "fish"]);
  expect(out).toContain("complete -c towline -f -n 'not __fish_seen_subcommand_from serve");
  expect(out).toContain("-a trace -d 'say where a commit is");
  expect(out).toContain("-n '__fish_seen_subcommand_from get; and __fish_seen_subcommand_from deployments' -l watch");
  expect((await towline(["completion", "zsh"])).out).toContain("bashcompinit");
  expect((await towline(["completion", "tcsh"])).code).toBe(2);
});
