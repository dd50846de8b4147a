import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { patience } from "../../support/patience.ts";

test.each(["SIGTERM", "SIGINT"] as const)("%s stops the server, and the process exits with 0", async (signal) => {
  const server = useServer();
  await server.says("started");
  server.child.kill(signal);
  expect(await server.ended).toBe(0);
  expect(server.output()).toContain('"msg":"stopped"');
});

test.each([
  ["SIGTERM", 143],
  ["SIGINT", 130],
] as const)("a second %s ends the process at once with %i", async (signal, code) => {
  const server = useServer("hang-at-stop");
  await server.says("started");
  server.child.kill(signal);
  await server.says("stopping; a second signal ends the process at once");
  server.child.kill(signal);
  expect(await server.ended).toBe(code);
});

test("a server that hangs at start can be stopped", async () => {
  const server = useServer("hang-at-start");
  await server.says("no git host");
  server.child.kill("SIGTERM");
  await server.says("stopping; a second signal ends the process at once");
  server.child.kill("SIGTERM");
  expect(await server.ended).toBe(143);
});

test.each(["throw", "reject"])(
  "an uncaught error (%s) is logged, the server stops, and the exit code is 1",
  async (how) => {
    const server = useServer(how);
    expect(await server.ended).toBe(1);
    expect(server.output()).toMatch(/"level":"fatal".*boom[^]*"msg":"stopped"/);
  },
);

test.each(["fail-at-start", "fail-at-stop"])("%s exits with 1 and its reason", async (how) => {
  const server = useServer(how);
  if (how === "fail-at-stop") {
    await server.says("started");
    server.child.kill("SIGTERM");
  }
  expect(await server.ended).toBe(1);
  expect(server.output()).toMatch(/the server failed: (port 8080 is in use|cannot stop)/);
});

test("a leaked handle does not keep the process alive", async () => {
  const server = useServer("leak");
  await server.says("started");
  server.child.kill("SIGTERM");
  expect(await server.ended).toBe(0);
});

test("the real command reports an invalid option before it starts anything", async () => {
  const server = use(["src/cli.ts", "serve", "--sweep-interval", "often"]);
  expect(await server.ended).toBe(2);
  expect(server.output()).toContain("sweep.interval (--sweep-interval)  must be a duration");
});

test("a reader that closes the pipe early is not an error", async () => {
  const server = use(["src/cli.ts", "config", "schema"]);
  server.child.stdout.destroy();
  expect(await server.ended).toBe(0);
  expect(server.output()).toBe("");
});

function useServer(...behaviour: string[]) {
  return use([join(import.meta.dirname, "serve-fixture.ts"), ...behaviour]);
}

function use(argv: string[]) {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, argv, { env: { PATH, NODE_COMPILE_CACHE, HOME: "/nowhere" } });
  const ended = once(child, "close").then(([code]) => code as number | null);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let output = "";
  child.stdout.on("data", (data: Buffer) => (output += data.toString()));
  child.stderr.on("data", (data: Buffer) => (output += data.toString()));
  const says = (text: string) => expect.poll(() => output, patience).toContain(text);
  return { child, ended, output: () => output, says };
}
