/** git behaves the same whether the starter process runs it or we do. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { createGit, type Git, GitFailure } from "../../../src/source/git.ts";
import { startStarter } from "../../../src/starter/starter.ts";
import { patience } from "../../support/patience.ts";
import { findProcessesOf } from "../../support/processes.ts";
import { useTempDir } from "../../support/world.ts";

async function useBoth() {
  const settings = { home: join(await useTempDir(), "home"), env: process.env };
  const starter = startStarter(settings);
  onTestFinished(() => starter.stop());
  return { starter, gits: [starter.git, createGit(settings)] as const };
}

const failureOf = (git: Git, ...[args, call]: Parameters<Git>) =>
  git(args, call).then(
    () => undefined,
    (error: unknown) => error as GitFailure,
  );

/** A remote that never answers. */
async function useSilence(): Promise<{ readonly url: string; readonly asked: Promise<unknown> }> {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  const asked = once(server, "connection").then(([socket]) => onTestFinished(() => void (socket as Socket).destroy()));
  await once(server, "listening");
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop.git`, asked };
}

/** An aborted call ends with all processes it has started. */
const asking = { protocols: ["http"], group: true };

test("output and errors of git are the same, and concurrent calls do not mix", async () => {
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

test("concurrent first calls get the same answers as later ones", async () => {
  for (let i = 0; i < 10; i++) {
    const git = createGit({ home: join(await useTempDir(), "home"), env: process.env });
    const first = Array.from({ length: 8 }, () => git(["version"], { protocols: [], group: true }));
    for (const printed of await Promise.all(first)) expect(printed).toMatch(/^git version/);
  }
});

test("an aborted call is ended, even if it has not started", async () => {
  const { gits } = await useBoth();
  for (const git of gits) {
    const { url, asked } = await useSilence();
    const controller = new AbortController();
    const waiting = failureOf(git, ["ls-remote", "--", url], { ...asking, signal: controller.signal });
    await asked;
    controller.abort(new Error("the server is stopping"));
    expect((await waiting)?.cause).toBeInstanceOf(Error);
    expect(
      await failureOf(git, ["--version"], { protocols: [], signal: AbortSignal.abort(new Error("too late")) }),
    ).toBeInstanceOf(Error);
  }
});

test("when the starter process ends, waiting calls fail, and the next call starts another one", async () => {
  const { starter } = await useBoth();
  const { url, asked } = await useSilence();
  const waiting = failureOf(starter.git, ["ls-remote", "--", url], asking);
  await asked;
  await starter.stop();
  expect((await waiting)?.message).toContain("the process that starts git and kluctl has ended");
  expect(await starter.git(["--version"], { protocols: [] })).toContain("git version");
});

test("a killed server leaves neither git nor the starter process behind", async () => {
  const dir = await useTempDir();
  const { url, asked } = await useSilence();
  const script = fileURLToPath(new URL("child-server.ts", import.meta.url));
  const server = spawn(process.execPath, [script, dir, url], {
    stdio: "inherit",
    env: { ...process.env, TMPDIR: dir }, // identifies their processes
  });
  onTestFinished(() => void server.kill("SIGKILL"));
  await asked;
  const running = () => findProcessesOf(dir).map(({ command }) => command);
  expect(running()).toEqual(
    expect.arrayContaining([expect.stringContaining("starter-process"), expect.stringContaining("ls-remote")]),
  );

  server.kill("SIGKILL");
  await vi.waitFor(() => expect(running()).toEqual([]), patience);
});
