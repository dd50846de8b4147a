/** Completion in real shells; bash is covered by the unit tests because every machine has it. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findTools } from "../../../dev/tools.ts";
import { towline } from "../../support/command-line.ts";
import { useTempDir } from "../../support/world.ts";

const run = promisify(execFile);
const say = () => undefined;

test("zsh completes the same words as bash, with their descriptions", async () => {
  const { zsh } = await findTools(["zsh"], { say });
  const { out: script } = await towline(["completion", "zsh"]);
  // Replaces what zsh's line editor provides when Tab is pressed, and prints what would be shown.
  const shown = `_describe() { eval 'print -rl -- "\${'"\${@[-1]}"'[@]}"' }; _files() { print files }; compdef() { }`;
  const file = join(await useTempDir(), "towline.zsh"); // longer than an argument may be
  await writeFile(file, `${shown}\n${script}\nwords=(towline "$@"); CURRENT=$#words; _towline`);
  const complete = async (...words: string[]) => (await run(zsh, ["-f", file, ...words])).stdout.trim().split("\n");
  expect(await complete("get", "")).toContain("previews:List open pull requests and what merging each would change");
  expect(await complete("get", "deployments", "--w")).toContain(
    "--watch:Keep running and print deployments that change, until Ctrl-C",
  );
  expect(await complete("get", "deployments", "shop/prod", "-o", "")).toEqual(["table", "wide", "json", "yaml"]);
  expect(await complete("completion", "")).toEqual(["bash", "zsh", "fish"]);
  expect(await complete("serve", "--config", "")).toEqual(["files"]);
  expect(await complete("preview", "get", "")).toEqual(["files"]);
});

test("fish completes the same words as bash, with their descriptions", async () => {
  const { fish } = await findTools(["fish"], { say });
  const { out: script } = await towline(["completion", "fish"]);
  const home = await useTempDir(); // fish writes to its home directory even with --no-config
  const file = join(home, "towline.fish"); // longer than an argument may be
  await writeFile(file, script);
  const complete = async (line: string) => {
    const asked = `source ${file}; complete -C ${JSON.stringify(line)}`;
    const { stdout } = await run(fish, ["--no-config", "-c", asked], {
      cwd: "/proc/self",
      env: { HOME: home },
    });
    return stdout.trim().split("\n");
  };
  expect(await complete("towline ge")).toEqual([
    "get\tList deployments, pull request previews, deliveries, queued jobs or notifications",
  ]);
  expect(await complete("towline get deployments --w")).toEqual([
    "--watch\tKeep running and print deployments that change, until Ctrl-C",
  ]);
  const formats = (await complete("towline get deployments shop/prod -o ")).map((line) => line.split("\t")[0]);
  expect(formats).toEqual(["json", "table", "wide", "yaml"]);
  expect(await complete("towline completion ")).toEqual(["bash", "fish", "zsh"]);
  expect(await complete("towline preview get ")).toContain("cmdline"); // a file of the current directory
});
