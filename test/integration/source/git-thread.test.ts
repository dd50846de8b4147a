/** git in a thread of its own answers as it does in ours. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createGit, type Git, GitFailure } from "../../../src/source/git.ts";
import { startGitThread } from "../../../src/source/git-thread.ts";
import { useTempDir } from "../../support/world.ts";

async function useBoth() {
  const settings = { home: join(await useTempDir(), "home"), env: process.env };
  const thread = startGitThread(settings);
  onTestFinished(() => thread.stop());
  return { thread, gits: [thread.git, createGit(settings)] as const };
}

const failureOf = (git: Git, ...[args, call]: Parameters<Git>) =>
  git(args, call).then(
    () => undefined,
    (error: unknown) => error as GitFailure,
  );

/** With all that it has started it ends when it is told to. */
const sleeping = { protocols: [], config: { "alias.wait": "!sleep 20" }, group: true };

test("what git prints and how it fails is the same, and many calls at once do not mix", async () => {
  const { gits } = await useBoth();
  const call = { protocols: [], config: { "user.name": "somebody" }, env: { GIT_AUTHOR_EMAIL: "a@example.com" } };
  const [printed, ours] = await Promise.all(gits.map((git) => git(["config", "--get", "user.name"], call)));
  expect([printed, ours]).toEqual(["somebody\n", "somebody\n"]);
  const [failure, own] = await Promise.all(
    gits.map((git) => failureOf(git, ["ls-remote", "--", "https://example.invalid/x"], { protocols: ["ssh"] })),
  );
  expect(failure).toBeInstanceOf(GitFailure);
  expect(failure?.stderr).toBe(own?.stderr);
  expect(failure?.stderr).toContain("transport 'https' not allowed");
  expect(failure?.cause).toBeUndefined();
  const names = Array.from({ length: 20 }, (_, i) => `user-${i}`);
  const many = names.map((name) =>
    gits[0](["config", "--get", "user.name"], { ...call, config: { "user.name": name } }),
  );
  expect(await Promise.all(many)).toEqual(names.map((name) => `${name}\n`));
});

test("what is not wanted any more is ended, also what has not begun", async () => {
  const { gits } = await useBoth();
  for (const git of gits) {
    const controller = new AbortController();
    const waiting = failureOf(git, ["wait"], {
      ...sleeping,
      signal: controller.signal,
    });
    controller.abort(new Error("the server is stopping"));
    expect(await waiting).toBeInstanceOf(Error);
    expect(
      await failureOf(git, ["--version"], { protocols: [], signal: AbortSignal.abort(new Error("too late")) }),
    ).toBeInstanceOf(Error);
  }
});

test("when the thread ends, those who wait are told, and the next call has another one", async () => {
  const { thread } = await useBoth();
  const waiting = failureOf(thread.git, ["wait"], sleeping);
  await thread.stop();
  expect((await waiting)?.message).toContain("the thread that runs git has ended");
  expect(await thread.git(["--version"], { protocols: [] })).toContain("git version");
});
