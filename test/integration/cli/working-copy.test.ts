/** `towline preview` where there is nothing to merge, or nothing to merge into. */
import { execFileSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openWorkingCopy } from "../../../src/cli/working-copy.ts";
import { useTempDir } from "../../support/world.ts";

test("a directory that is not a working copy is named in the error, with what to do", async () => {
  const dir = await useTempDir();
  const open = (where: string) => openWorkingCopy(where, { fetch: true });
  await expect(open(dir)).rejects.toThrow(
    / is not in a git working copy; run the command in one, or pass it: towline preview DIRECTORY$/,
  );
  await expect(open(join(dir, "gone"))).rejects.toThrow(/gone does not exist; pass a git working copy/);
});

test("if the remote lacks a branch, the error lists the branches it has; commits that are already merged are recognized", async () => {
  const dir = await useTempDir();
  const git = (...args: string[]) => execFileSync("git", args, { cwd: dir, encoding: "utf8", stdio: "pipe" });
  const identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
  await mkdir(join(dir, "origin"));
  git("init", "--quiet", "--bare", "--initial-branch=main", "origin");
  git("clone", "--quiet", "origin", "work");
  const work = join(dir, "work");
  git("-C", work, ...identity, "commit", "--quiet", "--allow-empty", "--message", "Begin");
  git("-C", work, "push", "--quiet", "origin", "HEAD:main", "HEAD:release");
  git("-C", work, "fetch", "--quiet");

  await expect(openWorkingCopy(work, { into: "prod", fetch: true })).rejects.toThrow(
    "no branch prod at origin; choose one with --into: main, release",
  );
  const isMerged = async () => {
    const copy = await openWorkingCopy(work, { into: "main", fetch: true });
    await copy.release();
    return copy.isMerged;
  };
  expect(await isMerged()).toBe(true);
  await writeFile(join(work, "new.yaml"), "a: b");
  expect(await isMerged()).toBe(false);
  git("-C", work, "push", "--quiet", "origin", ":release"); // fetched once, and deleted since
  await expect(openWorkingCopy(work, { into: "release", fetch: true })).rejects.toThrow("no branch release at origin");
});
