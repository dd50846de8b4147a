/** A server and a preview runner over real connections, with kluctl replaced by a function. */
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import http2 from "node:http2";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import tls from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import { noCredentials } from "../../../src/model.ts";
import { slotLimits } from "../../../src/preview-runner/archive.ts";
import { type Assignment, createDispatch, type DispatchDeps } from "../../../src/preview-runner/dispatch.ts";
import { sessionOptions, tlsOptions, toKey } from "../../../src/preview-runner/link.ts";
import { type RunnerDeps, startRunner } from "../../../src/preview-runner/runner.ts";
import {
  type TaskAccess,
  toDiffCall,
  toRenderCall,
  toTaskOverrides,
  toTaskRun,
} from "../../../src/preview-runner/task.ts";
import { createWorkDirectories, removeDirectory } from "../../../src/kit/work-directories.ts";
import { silentLog } from "../../support/fakes.ts";
import { useTempDir } from "../../support/world.ts";

const token = "a-token-of-the-preview-runner-for-tests";
const report = { version: "1.2.3", provided: { files: "Landlock" }, missing: {} };

async function useRunner(deps: Partial<RunnerDeps> = {}) {
  const dir = await useTempDir();
  const runner = await startRunner({
    token,
    bind: { host: "127.0.0.1", port: 0 },
    report: () => report,
    concurrency: 2,
    work: createWorkDirectories(dir),
    removeDirectory,
    render: () => Promise.resolve(),
    log: silentLog,
    ...deps,
  });
  onTestFinished(() => runner.stop(0));
  const dispatch = (more: Partial<DispatchDeps> = {}) =>
    createDispatch({ address: { host: "127.0.0.1", port: Number(runner.at) }, token, version: "1.2.3", ...more });
  return { runner, dir, dispatch };
}

/** A slot with a clone that contains these files, and the task for it. */
async function useAssignment(files: Record<string, string> = {}, access: Partial<TaskAccess> = {}) {
  const [slot, out] = [await useTempDir(), await useTempDir()];
  for (const [name, content] of Object.entries({ "clone/deployment.yaml": "deployments: []\n", ...files })) {
    await mkdir(join(slot, name, ".."), { recursive: true });
    await writeFile(join(slot, name), content);
  }
  const run = toTaskRun({
    deployment: { namespace: "shop", name: "staging" },
    reconcileId: "1",
    projectDir: "",
    images: [],
    ...{ includeTags: [], excludeTags: [], includeDeploymentDirs: [], excludeDeploymentDirs: [] },
    credentials: noCredentials,
    timeoutMs: 60_000,
  });
  const options = { forceApply: false, replaceOnError: false, forceReplaceOnError: false };
  const call = toDiffCall(options, { kubeconfig: "{}", env: {}, ports: [], ...access });
  const task = { call, run, projectDir: "clone" };
  return { task, slot, result: join(out, "result.yaml"), accept: () => undefined } satisfies Assignment;
}

/** A runner that knows the token and uses the server's connection in its own way. */
async function useRogue(serve: (session: http2.ClientHttp2Session) => unknown, deps: Partial<DispatchDeps> = {}) {
  const server = tls.createServer({ ...tlsOptions, pskCallback: () => toKey(token) }, (socket) => {
    socket.on("error", () => undefined);
    const session = http2.connect("http://server", { ...sessionOptions, createConnection: () => socket });
    session.on("error", () => undefined);
    void Promise.resolve(serve(session)).catch(() => undefined);
  });
  server.listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return createDispatch({ address: { host: "127.0.0.1", port }, token, version: "1.2.3", ...deps });
}

function request(session: http2.ClientHttp2Session, path: string, body: object = {}): http2.ClientHttp2Stream {
  const stream = session.request({ ":path": path, ":method": "POST" });
  stream.on("error", () => undefined);
  stream.end(JSON.stringify(body));
  return stream;
}

const never = new AbortController().signal;

test("a runner receives the slot's files, returns the result and keeps nothing", async () => {
  let seen: Record<string, string> = {};
  const { dispatch, dir } = await useRunner({
    async render(task, { slot, projectDir }, send) {
      const file = join(projectDir, "app", "settings.yml");
      seen = { content: await readFile(file, "utf8"), entries: (await readdir(slot)).join(), target: task.run.target ?? "" }; // prettier-ignore
      await writeFile(join(slot, "result"), "what kluctl wrote");
      await send(join(slot, "result"));
    },
  });
  const assignment = await useAssignment({
    "clone/app/settings.yml": "color: red",
    "clone/.git/config": "[core]\n\tfsmonitor = evil\n",
  });

  const outcome = await dispatch().run(assignment, never);

  expect(outcome).toEqual({ done: true });
  expect(seen).toEqual({ content: "color: red", entries: "clone", target: "" });
  expect(await readFile(assignment.result, "utf8")).toBe("what kluctl wrote");
  await expect.poll(() => readdir(dir)).toEqual([]);
});

test("clones that take the place of included repositories arrive beside the project's", async () => {
  const seen: string[] = [];
  const { dispatch } = await useRunner({
    async render({ overrides = [] }, { slot }) {
      for (const { host, path, dir } of overrides) seen.push(host, path, await readFile(join(slot, dir, "a"), "utf8"));
      seen.push((await readdir(slot)).toSorted().join());
    },
  });
  const assignment = await useAssignment();
  const library = await useTempDir();
  await writeFile(join(library, "a"), "red");
  await mkdir(join(library, ".git"));
  const repoKey = { type: "git", host: "git.example.com", path: "org/library" } as const;
  const { overrides, others } = toTaskOverrides([{ repoKey, isGroup: false, path: library }]);
  const task = { ...assignment.task, overrides };
  expect(await dispatch().run({ ...assignment, task, others }, never)).toEqual({ done: true });
  expect(seen).toEqual(["git.example.com", "org/library", "red", "clone,override-0"]);

  const outside = { ...assignment.task, overrides: [{ host: "", path: "", dir: "../elsewhere" }] };
  await expect(dispatch().run({ ...assignment, task: outside }, never)).rejects.toThrow();
});

test("links arrive unchanged, wherever they point, and no file is written through one", async () => {
  const found: string[] = [];
  const { dispatch } = await useRunner({
    async render(_task, { projectDir }) {
      for (const name of ["inside", "outside", "up"]) found.push(await readlink(join(projectDir, name)));
      found.push((await readFile(join(projectDir, ".git", "config"), "utf8")).split("\n", 1)[0] ?? "");
    },
  });
  const assignment = await useAssignment({ "clone/app/file": "x", "clone/.git/config": "[evil]\n" });
  await symlink("app/file", join(assignment.slot, "clone/inside"));
  await symlink("/etc/passwd", join(assignment.slot, "clone/outside"));
  await symlink("../../..", join(assignment.slot, "clone/up"));

  expect(await dispatch().run(assignment, never)).toEqual({ done: true });

  expect(found).toEqual(["app/file", "/etc/passwd", "../../..", "[core]"]);
});

test("kluctl's connections go through the server, and only to the ports of its run", async () => {
  const echo = net.createServer((socket) => void socket.pipe(socket)).listen(0, "127.0.0.1");
  const other = net.createServer((socket) => socket.end("other")).listen(0, "127.0.0.1");
  onTestFinished(() => void [echo, other].map((server) => server.close()));
  await Promise.all([echo, other].map((server) => once(server, "listening")));
  const port = (echo.address() as AddressInfo).port;
  const answers: string[] = [];
  const { dispatch } = await useRunner({
    async render(_task, { access }) {
      const [own = 0] = access?.ports ?? [];
      expect(own).not.toBe(port);
      expect(access?.kubeconfig).toBe(`http://127.0.0.1:${own}/path`);
      expect(access?.env).toEqual({ HTTPS_PROXY: `http://login:x@127.0.0.1:${own}` });
      const socket = net.connect(own, "127.0.0.1");
      socket.end("hello");
      answers.push(await text(socket));
    },
  });
  const assignment = await useAssignment(
    {},
    {
      kubeconfig: `http://127.0.0.1:${port}/path`,
      env: { HTTPS_PROXY: `http://login:x@127.0.0.1:${port}` },
      ports: [port],
    },
  );

  expect(await dispatch().run(assignment, never)).toEqual({ done: true });

  expect(answers).toEqual(["hello"]);
});

test("a project that is rendered from its files alone gets no way to the server", async () => {
  let seen: unknown;
  const { dispatch } = await useRunner({ render: async ({ call }, { access }) => void (seen = { call, access }) });
  const assignment = await useAssignment();
  const call = toRenderCall({ kubernetesVersion: "v1.32.2" });

  expect(await dispatch().run({ ...assignment, task: { ...assignment.task, call } }, never)).toEqual({ done: true });

  expect(seen).toEqual({
    call: { command: "render", options: { kubernetesVersion: "v1.32.2" } },
    access: undefined,
  });
});

test("a run ends at the runner when the server no longer needs it", async () => {
  const stopped = Promise.withResolvers<boolean>();
  const started = Promise.withResolvers<void>();
  const { dispatch, runner } = await useRunner({
    render: (_task, _place, _send, signal) => {
      started.resolve();
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          stopped.resolve(true);
          reject(signal.reason as Error);
        });
      });
    },
  });
  const abort = new AbortController();
  const running = dispatch().run(await useAssignment(), abort.signal);
  await started.promise;
  abort.abort();

  await expect(running).rejects.toMatchObject({ why: "stopped" });
  expect(await stopped.promise).toBe(true);
  await expect.poll(() => runner.running()).toBe(0);
});

test("a runner that stops during a run is reported as such", async () => {
  const started = Promise.withResolvers<void>();
  const { dispatch, runner } = await useRunner({
    render: (_task, _place, _send, signal) => {
      started.resolve();
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
    },
  });
  const running = dispatch().run(await useAssignment(), never);
  await started.promise;
  void runner.stop(0);

  await expect(running).rejects.toMatchObject({ why: "signal", message: expect.stringContaining("ended") });
});

test("a runner that is stopped finishes its running tasks, and starts no new ones", async () => {
  const [started, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { dispatch, runner } = await useRunner({
    async render() {
      started.resolve();
      await gate.promise;
    },
  });
  const running = dispatch().run(await useAssignment(), never);
  await started.promise;
  const stopped = runner.stop(600_000);

  await expect(dispatch().run(await useAssignment(), never)).rejects.toThrow("which does not respond");
  gate.resolve();

  expect(await running).toEqual({ done: true });
  await stopped;
});

test("the error of a run is returned with its kind", async () => {
  const { dispatch } = await useRunner({ render: () => Promise.reject(new PrepareError("target prod not found")) });

  expect(await dispatch().run(await useAssignment(), never)).toEqual({
    failed: "prepare",
    message: "target prod not found",
  });
});

test("no task goes to a runner with another version or token, or to one that is not there", async () => {
  let rendered = 0;
  const { dispatch, runner } = await useRunner({ render: async () => void rendered++ });
  const assignment = await useAssignment();

  await expect(dispatch({ version: "1.2.4" }).run(assignment, never)).rejects.toThrow(
    "runs Towline 1.2.3, but this server runs 1.2.4",
  );
  await expect(dispatch({ token: "another-token-than-the-runner-has" }).run(assignment, never)).rejects.toThrow(
    "rejects this server's preview.runner.token",
  );
  await runner.stop(0);
  await expect(dispatch().run(assignment, never)).rejects.toThrow("which does not respond");
  expect(rendered).toBe(0);
});

test("a run that the server does not accept on this runner does not start", async () => {
  let rendered = 0;
  const { dispatch } = await useRunner({ render: async () => void rendered++ });
  const accept = () => {
    throw new PrepareError("something is missing");
  };

  await expect(dispatch().run({ ...(await useAssignment()), accept }, never)).rejects.toThrow("something is missing");

  expect(rendered).toBe(0);
});

test("runs wait if all places are taken, and the server can query the runner meanwhile", async () => {
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let begun = 0;
  const { dispatch } = await useRunner({ render: () => gates[begun++]?.promise ?? Promise.resolve() });
  const runs = [0, 1, 2].map(async () => dispatch().run(await useAssignment(), never));
  await expect.poll(() => begun).toBe(2);

  expect(await dispatch().examine(never)).toEqual(report);
  expect(begun).toBe(2);
  for (const gate of gates) gate.resolve();

  expect(await Promise.all(runs)).toEqual([{ done: true }, { done: true }, { done: true }]);
});

test("a runner can listen on a socket, even if a killed one left its socket file behind", async () => {
  const path = join(await useTempDir(), "socket");
  await useRunner({ bind: { path } });
  const { dispatch } = await useRunner({ bind: { path } });

  expect(await dispatch({ address: { path } }).run(await useAssignment(), never)).toEqual({ done: true });
});

test("a client without the token gets nothing, and does not affect others", async () => {
  const { dispatch, runner } = await useRunner();
  const stranger = net.connect(Number(runner.at), "127.0.0.1");
  stranger.on("error", () => undefined);
  stranger.write("GET / HTTP/1.1\r\n\r\n");

  expect(await dispatch().run(await useAssignment(), never)).toEqual({ done: true });
  expect(await text(stranger).catch(() => "")).not.toContain("HTTP");
});

test("names arrive as git stores them, whatever their bytes", async () => {
  const found: string[] = [];
  const { dispatch } = await useRunner({
    async render(_task, { projectDir }) {
      found.push(...(await readdir(projectDir, { encoding: "latin1" })));
      const [odd] = await readdir(Buffer.from(`${projectDir}/d\xff`, "latin1"), { encoding: "latin1" });
      found.push(odd ?? "", await readlink(Buffer.from(`${projectDir}/l\xff`, "latin1"), "latin1"));
    },
  });
  const assignment = await useAssignment({ "clone/dev-disk-by\\x2dlabel.mount": "[Mount]" });
  const place = (name: string) => Buffer.from(join(assignment.slot, "clone", name), "latin1");
  for (const name of ["a\xff", "b\xfe", "c\xfd"]) await writeFile(place(name), "x");
  await mkdir(place("d\xff"));
  await writeFile(place("d\xff/e\xff"), "x");
  await symlink(Buffer.from("to\xff", "latin1"), place("l\xff"));

  expect(await dispatch().run(assignment, never)).toEqual({ done: true });

  const names = ["a\xff", "b\xfe", "c\xfd", "d\xff", "l\xff", "e\xff", "to\xff"];
  expect(found.toSorted()).toEqual([...names, ".git", "deployment.yaml", "dev-disk-by\\x2dlabel.mount"].toSorted());
});

test("empty and large files arrive complete, and executables stay executable", async () => {
  const large = Buffer.alloc(3 * 1024 ** 2 + 1, "0123456789abcdef");
  const seen: unknown[] = [];
  const { dispatch } = await useRunner({
    async render(_task, { projectDir }) {
      seen.push((await readFile(join(projectDir, "large"))).equals(large), await readFile(join(projectDir, "empty"), "utf8")); // prettier-ignore
      for (const name of ["large", "program"])
        seen.push(((await stat(join(projectDir, name))).mode & 0o777).toString(8));
    },
  });
  const assignment = await useAssignment({ "clone/empty": "", "clone/program": "#!/bin/sh" });
  await writeFile(join(assignment.slot, "clone/large"), large);
  await chmod(join(assignment.slot, "clone/program"), 0o755);

  expect(await dispatch().run(assignment, never)).toEqual({ done: true });

  expect(seen).toEqual([true, "", "600", "700"]);
});

test("directories of any depth arrive", async () => {
  const deep = `clone/${"d/".repeat(1_100)}file`;
  let content = "";
  const { dispatch } = await useRunner({
    render: async (_task, { slot }) => void (content = await readFile(join(slot, deep), "utf8")),
  });

  expect(await dispatch().run(await useAssignment({ [deep]: "found" }), never)).toEqual({ done: true });

  expect(content).toBe("found");
});

test("a branch with more links than the limit is refused with an error", async () => {
  let rendered = 0;
  const { dispatch } = await useRunner({ render: async () => void rendered++ });
  const assignment = await useAssignment();
  for (let i = 0; i < 3; i++) await symlink("target", join(assignment.slot, "clone", `link-${i}`));
  const limits = { ...slotLimits, links: 2 };

  const running = dispatch({ limits }).run(assignment, never);

  await expect(running).rejects.toThrow("the merge cannot be sent to the preview runner: it holds more than 2 symbolic links"); // prettier-ignore
  await expect(running).rejects.toBeInstanceOf(PrepareError);
  expect(rendered).toBe(0);
});

test("a branch that the runner cannot unpack fails as the branch's error, not as the runner's", async () => {
  const { dispatch } = await useRunner();
  const assignment = await useAssignment();
  // The longest possible path at the server; the runner's own directory is deeper.
  const deep = join(assignment.slot, "clone", "d".repeat(200), "/");
  const room = 4_090 - deep.length;
  mkdirSync(deep + `${"d".repeat(199)}/`.repeat(Math.floor(room / 200)) + "d".repeat(room % 200), { recursive: true });
  await writeFile(join(assignment.slot, "large"), Buffer.alloc(8 * 1024 ** 2));

  expect(await dispatch().run(assignment, never)).toEqual({
    failed: "prepare",
    message: "the merge cannot be unpacked: a name in it is too long",
  });
});

test("a runner that requests a port in a run without ports is disconnected", async () => {
  let connections = 0;
  const listener = net.createServer((socket) => (connections++, socket.end())).listen(0, "127.0.0.1");
  onTestFinished(() => void listener.close());
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const dispatch = await useRogue(async (session) => {
    await text(request(session, "/task", report));
    await text(request(session, `/ports/${port}`));
  });
  const assignment = await useAssignment();
  const running = dispatch.run({ ...assignment, task: { ...assignment.task, call: toRenderCall({}) } }, never);

  await expect(running).rejects.toThrow("a port that it was not given");
  expect(connections).toBe(0);
});

test("a runner that cancels streams of a run does not end it", async () => {
  const listener = net.createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void listener.close());
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const dispatch = await useRogue(async (session) => {
    await text(request(session, "/task", report));
    const slot = request(session, "/slot");
    await once(slot, "data");
    slot.close(http2.constants.NGHTTP2_CANCEL);
    for (let i = 0; i < 20; i++) request(session, `/ports/${port}`).close(http2.constants.NGHTTP2_CANCEL);
    // The server has handled all of that before it receives the outcome.
    for (let i = 0; i < 3; i++) await new Promise((resolve) => session.ping(resolve));
    request(session, "/outcome", { failed: "prepare", message: "it cannot be unpacked" });
  });

  const outcome = await dispatch.run(await useAssignment({ "clone/file": "x".repeat(16_000_000) }, { ports: [port] }), never); // prettier-ignore

  expect(outcome).toEqual({ failed: "prepare", message: "it cannot be unpacked" });
});

test("a runner that reads only part of the files leaves none of them open", async () => {
  const dispatch = await useRogue(async (session) => {
    await text(request(session, "/task", report));
    const slot = request(session, "/slot");
    await once(slot, "data");
    slot.close(http2.constants.NGHTTP2_CANCEL);
    request(session, "/outcome", { failed: "other", message: "enough" });
  });
  const assignment = await useAssignment();
  for (const name of ["a", "b", "c", "d"]) {
    await writeFile(join(assignment.slot, "clone", name), Buffer.alloc(4 * 1024 ** 2));
  }
  const open = async () => {
    const paths = await Promise.all((await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ""))); // prettier-ignore
    return paths.filter((path) => path.startsWith(assignment.slot));
  };

  for (let i = 0; i < 5; i++) await dispatch.run(assignment, never);

  await expect.poll(open).toEqual([]);
});

test.each([
  ["the files twice", ["/task", "/slot", "/slot"]],
  ["the task twice", ["/task", "/task"]],
  ["the files before the task", ["/slot"]],
  ["a port before the task", ["/ports/1"]],
  ["the files after the result", ["/task", "/result", "/slot"]],
])("a runner that requests %s is disconnected", async (_what, paths) => {
  const dispatch = await useRogue(async (session) => {
    for (const path of paths) await text(request(session, path, report));
  });

  const running = dispatch.run(await useAssignment({}, { ports: [1] }), never);

  await expect(running).rejects.toThrow("the preview runner requested something twice or too early");
});

test("a run with a timeout of a month is not cut short", async () => {
  const { dispatch } = await useRunner();
  const assignment = await useAssignment();
  assignment.task.run.timeoutMs = 31 * 24 * 3_600_000;

  await expect(dispatch().run(assignment, never)).resolves.toEqual({ done: true });
});

test.each([
  ["says nothing", [], { reportMs: 20 }, "did not identify itself in time"],
  ["has no place for a run", ["/task"], { placeMs: 20 }, "had no free slot for this run"],
  ["never ends a run", ["/task", "/slot"], { overtimeMs: 20 }, "did not end the run in time"],
])("a runner that answers and %s does not block a job forever", async (_what, paths, patience, words) => {
  const dispatch = await useRogue(
    async (session) => {
      for (const path of paths) await text(request(session, path, report));
    },
    { patience },
  );
  const assignment = await useAssignment();
  assignment.task.run.timeoutMs = 20;

  await expect(dispatch.run(assignment, never)).rejects.toThrow(words);
});

test("every failure to identify a runner is reported", async () => {
  const heard: (object | Error)[] = [];
  const deps = { onReport: (said: object) => void heard.push(said) };
  const silent = await useRogue(() => undefined, { ...deps, patience: { reportMs: 20 } });
  const gone = await useRogue((session) => session.destroy(), deps);
  const { dispatch } = await useRunner();

  for (const { examine } of [silent, gone, dispatch({ version: "1.2.4", ...deps })]) {
    await expect(examine(never)).rejects.toThrow();
  }

  expect(heard.map(String)).toEqual(
    expect.arrayContaining([
      expect.stringContaining("did not identify itself in time"),
      expect.stringContaining("ended"),
      expect.stringContaining("runs Towline 1.2.3, but this server runs 1.2.4"),
    ]),
  );
  expect(heard.every((said) => said instanceof Error)).toBe(true);
});

test("a runner that stops accepts no task from a connection that is still being set up", async () => {
  const { runner } = await useRunner();
  let stopped: Promise<void> | undefined;
  const socket = tls.connect({
    ...tlsOptions,
    ...{ port: Number(runner.at), host: "127.0.0.1", checkServerIdentity: () => undefined },
    pskCallback: () => {
      stopped = runner.stop(600_000);
      return { psk: toKey(token), identity: "towline" };
    },
  });
  socket.on("error", () => undefined); // it may be closed before or after its handshake

  await new Promise((resolve) => socket.once("close", resolve));

  await stopped;
});

test("repeated attempts without the token are logged once", async () => {
  const lines: string[] = [];
  const log = { ...silentLog, warn: (...words: unknown[]) => void lines.push(JSON.stringify(words)) };
  const { dispatch } = await useRunner({ log: log as RunnerDeps["log"] });
  const stranger = dispatch({ token: "another-token-than-the-runner-has" });

  for (let i = 0; i < 3; i++) await expect(stranger.examine(never)).rejects.toThrow("preview.runner.token");

  await expect.poll(() => lines).toHaveLength(1);
});
