import { mkdir, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { KilledError, KluctlUnavailableError, PrepareError } from "../../../src/errors.ts";
import type { KluctlDeps } from "../../../src/kluctl/kluctl.ts";
import type { Run } from "../../../src/model.ts";
import {
  collectLogs,
  createFakeKluctl,
  fakeHeld,
  findProcesses,
  isRunning,
  gitLogins,
  newKluctl,
  newRun,
  noDeployOptions,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import { useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

const signal = new AbortController().signal;
const emptyResult = `echo 'id: one' > $out`;

/** A server's kluctl, replaced by a script with this body. */
async function useFake(body: string, deps: Partial<KluctlDeps> = {}, version?: string) {
  const dir = await useTempDir();
  const { log, lines } = collectLogs();
  const kluctl = newKluctl(dir, { binary: await createFakeKluctl(dir, body, version), log, ...deps });
  onTestFinished(() => kluctl.stop());
  const diff = (run: Partial<Run> = {}, until = signal) => kluctl.diff(newRun(run), noDiffOptions, until);
  return { dir, kluctl, diff, lines, seen: (name: string) => readFile(join(dir, name), "utf8") };
}

/** The error that a promise rejects with; `undefined` if it resolves. */
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error as Error,
  );

test("of the server's environment, kluctl only gets the variables meant for it", async () => {
  const env = {
    PATH: process.env["PATH"],
    TOWLINE_CANARY: "canary-1",
    KLUCTL_TARGET: "canary-2",
    KLUCTL_GIT_CACHE_UPDATE_INTERVAL: "canary-3",
    SOPS_AGE_KEY: "canary-4",
    GNUPGHOME: "canary-5",
    PYTHONDONTWRITEBYTECODE: "canary-6",
    BASH_ENV: "/canary-7",
    HOME: "/canary-8",
    HTTPS_PROXY: "http://proxy:3128",
    AWS_REGION: "eu-1",
    KLUCTL_GIT_HOST: "git.example.com",
    KLUCTL_REGISTRY_1_TOKEN: "for-everybody",
  };
  const { diff, seen } = await useFake(`env > $here/env; ${emptyResult}`, { env });

  await diff();

  const text = await seen("env");
  expect(text).not.toContain("canary");
  for (const line of ["HTTPS_PROXY=http://proxy:3128", "AWS_REGION=eu-1", "KLUCTL_GIT_0_HOST=git.example.com"]) {
    expect(text).toContain(line);
  }
  const names = text.split("\n").map((line) => line.split("=")[0]);
  expect(new Set(names)).toEqual(
    new Set(
      [
        "AWS_REGION",
        "GNUPGHOME",
        "GOGC",
        "GOMEMLIMIT",
        "HOME",
        "HTTPS_PROXY",
        "KLUCTL_BASE_TMP_DIR",
        "KLUCTL_CACHE_DIR",
        "KLUCTL_GIT_0_HOST",
        "KUBECONFIG",
      ]
        .concat(["KLUCTL_REGISTRY_2_TOKEN", "PATH", "TMPDIR"])
        .concat(["PWD", "OLDPWD", "SHLVL", "_", ""]) // variables of the shell itself
        .filter((name) => names.includes(name)),
    ),
  );
});

test("after a short run, kluctl gets one thread only", async () => {
  const { diff, seen } = await useFake(`echo "threads \${GOMAXPROCS-any}" >> $here/threads; ${emptyResult}`);
  await diff();
  expect(await seen("threads")).toBe("threads any\n");
  await vi.waitFor(async () => {
    await diff();
    expect(await seen("threads")).toContain("threads 1\n");
  }, patience);
});

test("metacharacters are passed to kluctl unchanged, and its command line contains no secret", async () => {
  const { diff, seen } = await useFake(
    `printf '%s\\n' "$@" > $here/argv; cat $KUBECONFIG > $here/kubeconfig; ${emptyResult}`,
    {
      kubeconfigFor: (user) => `# for ${user}`,
    },
  );
  const tag = "$(touch pwned) `id` 'a' \"b\" ; && | > * --flag";

  await diff({
    includeTags: [tag],
    target: "-rf",
    impersonate: "system:serviceaccount:shop:deployer",
    credentials: gitLogins({
      host: "git.example.com",
      secretName: "login",
      username: "bot",
      password: "hunter2-hunter2",
    }),
  });

  const argv = (await seen("argv")).split("\n");
  expect(argv).toContain(`--include-tag=${tag}`);
  expect(argv).toContain("--target=-rf");
  expect(argv.join()).not.toContain("hunter2");
  expect(await seen("kubeconfig")).toBe("# for system:serviceaccount:shop:deployer");
});

test("logins are passed as files and variables of the run, and removed after it", async () => {
  const { diff, seen, dir } = await useFake(
    `env > $here/env; stat -c %a . *.key result.yaml 2>/dev/null > $here/modes; cat *.key $SSH_KNOWN_HOSTS > $here/files; ${emptyResult}; stat -c %a $out >> $here/modes`,
    { env: { PATH: process.env["PATH"], KLUCTL_GIT_0_HOST: "theirs" } },
  );

  await diff({
    credentials: gitLogins(
      {
        host: "Git.Example.com",
        path: "/Org/**",
        secretName: "a",
        username: "bot",
        password: "hunter2-hunter2",
        ca: "CA",
      },
      { host: "git.example.com", secretName: "b", username: "*", identity: "KEY", knownHosts: "HOSTS" },
    ),
  });

  const env = (await seen("env")).split("\n");
  expect(env).toContain("KLUCTL_GIT_0_HOST=git.example.com");
  expect(env).toContain("KLUCTL_GIT_0_PATH=org/**");
  expect(env).toContain("KLUCTL_GIT_0_PASSWORD=hunter2-hunter2");
  expect(env).toContain("KLUCTL_GIT_1_USERNAME=*");
  expect(env).toContain("KLUCTL_GIT_3_HOST=theirs");
  expect(await seen("files")).toBe("KEY\nHOSTS\n");
  expect((await seen("modes")).trim().split("\n")).toEqual(["700", "600", "600"]);
  await expect.poll(() => readdir(join(dir, "work"))).toEqual([]);
});

test("runs with logins share caches within their namespace only, and no runs share working files", async () => {
  const { diff, seen } = await useFake(
    `readlink -f $KLUCTL_BASE_TMP_DIR/*/git-cache $KLUCTL_CACHE_DIR/go-embed-jinja2 >> $here/caches; echo $KLUCTL_BASE_TMP_DIR $TMPDIR >> $here/places; ${emptyResult}`,
  );
  const credentials = gitLogins({
    host: "git.example.com",
    secretName: "login",
    username: "bot",
    password: "hunter2-hunter2",
  });

  await diff();
  await diff({ deployment: { namespace: "other", name: "one" } });
  await diff({ credentials });
  await diff({ credentials, deployment: { namespace: "shop", name: "two" } });
  await diff({ credentials, deployment: { namespace: "other", name: "one" } });

  const caches = (await seen("caches")).trim().split("\n");
  const [open, open2, shop, shop2, other] = caches.filter((path) => path.endsWith("/git-cache"));
  expect(open2).toBe(open);
  expect(shop2).toBe(shop);
  expect(new Set([open, shop, other]).size).toBe(3);
  expect(new Set(caches.filter((path) => path.endsWith("/python"))).size).toBe(1);
  const places = (await seen("places"))
    .trim()
    .split("\n")
    .map((line) => line.split(" "));
  expect(new Set(places.map(([base]) => base)).size).toBe(5);
  expect(new Set(places.map(([, temporary]) => temporary)).size).toBe(1);
});

test("a hanging kluctl that ignores SIGTERM is killed, with all processes it started", async () => {
  const body = `trap '' TERM; echo $$ > $here/pid; sleep 1000 & while :; do sleep 1000; done`;
  const { diff, dir } = await useFake(body, { limits: { graceMs: 100, overtimeMs: 0 } });

  const error = await failure(diff({ timeoutMs: 300 }));

  expect(error).toEqual(new KilledError("timeout", "kluctl diff was ended because it took longer than 0 s"));
  await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
  await expect.poll(() => readdir(join(dir, "work"))).toEqual([]);
});

test("processes that kluctl leaves behind are ended, and do not delay its result", async () => {
  const { diff, seen } = await useFake(`sleep 1000 & echo $! > $here/pid; ${emptyResult}`);

  await diff();

  const pid = Number(await seen("pid"));
  await vi.waitFor(() => expect(isRunning(pid)).toBe(false), patience);
});

test("a flood of output is truncated, and the end is kept", async () => {
  const { diff, lines } = await useFake(
    `head -c 50000000 /dev/zero | tr '\\0' 'x' >&2; yes | head -n 2000000 >&2; echo >&2; echo the end >&2; exit 1`,
    {
      limits: { keptBytes: 10_000, lines: 50 },
    },
  );

  const error = await failure(diff());

  expect(error).toBeInstanceOf(PrepareError);
  expect(error?.message.length).toBeLessThan(11_000);
  expect(lines.length).toBeLessThan(60);
  expect(lines[0]?.msg).toHaveLength(4_097);
});

test("logs and messages contain no colours or control characters", async () => {
  const { diff, lines } = await useFake(
    `printf 'Rendering templates\\n\\e[31mred\\e[0m \\a\\xe2\\x80\\xaebad\\r\\nsecond\\n' >&2; exit 1`,
  );

  expect(await failure(diff())).toEqual(new PrepareError("red bad\nsecond"));
  expect(lines.map(({ msg }) => msg)).toEqual(["Rendering templates", "red bad", "second"]);
});

test("a password that a remote repeats is redacted in messages and logs", async () => {
  const { diff, lines } = await useFake(`echo 'fatal: https://bot:hunter2-hunter2@git/ refused' >&2; exit 1`);
  const credentials = gitLogins({ host: "git", secretName: "login", username: "bot", password: "hunter2-hunter2" });

  const error = await failure(diff({ credentials }));

  expect(error?.message).toContain("refused");
  expect(JSON.stringify([error?.message, lines])).not.toContain("hunter2");
});

test.for([
  [
    "a failed command has a result with its errors",
    `printf 'errors: [{ref: {kind: "", name: ""}, message: no}]' > $out; exit 1`,
    undefined,
  ],
  [
    "a result that is no YAML is unreadable",
    `printf 'data: "s3cret' > $out`,
    /^kluctl's result cannot be read: its 13 bytes/,
  ],
  ["a result that is something else is unreadable", `echo 'errors: s3cret' > $out`, /^kluctl's result cannot be read/],
  ["an empty result after success is unreadable", `: > $out`, /^kluctl's result cannot be read: kluctl wrote none/],
  [
    "no result after a failure is a PrepareError",
    `echo 'Rendering templates' >&2; echo why >&2; exit 1`,
    "PrepareError: why",
  ],
  [
    "a panic is a killed process",
    `echo 'panic: x' >&2; exit 2`,
    "KilledError: kluctl failed (exit status 2): panic: x",
  ],
  ["out of memory is a killed process", `kill -KILL $$`, /^kluctl diff was killed \(exit status 137\)/],
  ["exit status 137 is a killed process", `exit 137`, /^kluctl diff was killed \(exit status 137\)/],
  ["a full disk is named", `echo 'write /x: no space left on device' >&2; exit 1`, /^No space left on the disk/],
  [
    "a result cut off by a full disk is named",
    `printf 'data: "' > $out; echo 'No space left on device' >&2; exit 1`,
    /^No space left/,
  ],
] as const)("%s", async ([, body, expected]) => {
  const { diff } = await useFake(body);

  const error = await failure(diff());

  if (expected === undefined) expect(error).toBeUndefined();
  else if (typeof expected === "string") expect(String(error)).toBe(expected);
  else expect(error?.message).toMatch(expected);
  expect(error?.message ?? "").not.toContain("s3cret");
});

test("a kluctl that is missing or too old is unavailable until it is replaced", async () => {
  const { kluctl, diff, dir } = await useFake(emptyResult, {}, "2.19.4");
  const message = `kluctl 2.19.4 at ${join(dir, "kluctl")} is too old: 2.22.1 or newer is needed (set TOWLINE_KLUCTL to another binary)`;
  await expect(kluctl.version()).rejects.toEqual(new KluctlUnavailableError(message));
  await expect(diff()).rejects.toEqual(new KluctlUnavailableError(message));

  await createFakeKluctl(dir, emptyResult, "2.28.2");

  await expect(kluctl.version()).resolves.toBe("2.28.2");
  await expect(diff()).resolves.toMatchObject({ objects: [] });
  const missing = newKluctl(dir, { binary: join(dir, "nowhere") });
  await expect(missing.version()).rejects.toThrow(/^kluctl not found/);
  await writeFile(join(dir, "garbage"), "\u0000", { mode: 0o755 });
  await expect(newKluctl(dir, { binary: join(dir, "garbage") }).version()).rejects.toThrow(KluctlUnavailableError);
});

test("mutating runs do not start without the lease", async () => {
  const { kluctl, dir } = await useFake(`touch $here/started; ${emptyResult}`);
  const lost = fakeHeld();
  lost.lose();

  await expect(kluctl.deploy(newRun({}), noDeployOptions, signal)).rejects.toThrow("needs the lease");
  await expect(kluctl.deploy(newRun({ held: lost }), noDeployOptions, signal)).rejects.toMatchObject({
    why: "lease-lost",
  });
  expect(await readdir(dir)).not.toContain("started");
});

test("kluctl is killed unless its lease is renewed", async () => {
  const { kluctl, dir, seen } = await useFake(`while :; do echo >> $here/alive; sleep 0.05; done`, {
    limits: { leaseSilenceMs: 1_500 }, // a busy machine may keep this process from renewing for this long
  });
  const held = fakeHeld();
  const startedAt = performance.now();
  const deploy = failure(kluctl.deploy(newRun({ held }), noDeployOptions, signal));
  const renewals = setInterval(held.renew, 100);
  // Longer than it would live without renewals.
  await vi.waitFor(async () => {
    expect(performance.now() - startedAt).toBeGreaterThan(2_500);
    expect((await seen("alive")).length).toBeGreaterThan(15);
  }, patience);

  clearInterval(renewals);

  expect(await deploy).toMatchObject({ name: "KilledError", why: "signal" });
  await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
});

test("stopping ends running processes and starts no new ones", async () => {
  const { kluctl, diff, dir } = await useFake(`touch $here/started; sleep 1000`);
  const run = failure(diff());
  await vi.waitFor(async () => expect(await readdir(dir)).toContain("started"), patience);

  await kluctl.stop();

  expect(await run).toMatchObject({ why: "stopped" });
  await expect.poll(() => findProcesses(dir), patience).toEqual([]);
  expect(await failure(diff())).toMatchObject({ why: "stopped" });
});

test("work directories of a dead server are removed at the next start", async () => {
  const { dir, diff } = await useFake(emptyResult);
  const gone = join(dir, "work", `${2 ** 22 + 1}-abcdef`);
  const alive = join(dir, "work", `${process.ppid}-abcdef`);
  await mkdir(gone, { recursive: true });
  await mkdir(alive, { recursive: true });

  await diff();

  await expect.poll(() => readdir(join(dir, "work"))).toEqual([`${process.ppid}-abcdef`]);
});

test("leftovers of killed runs in the caches are removed after a day, and files that speed up later runs stay", async () => {
  const { dir, diff } = await useFake(emptyResult);
  const mirrors = join(dir, "cache/namespaces/shop/git-cache");
  const temporary = join(dir, "cache/tmp");
  const old = [join(mirrors, "tmp-mirror-1"), join(temporary, "kustomize-1")];
  const kept = [join(mirrors, "library-abc123"), join(temporary, "go-embedded-python")];
  for (const path of [...old, ...kept]) {
    await mkdir(path, { recursive: true });
    await utimes(path, new Date(0), new Date(0));
  }
  await mkdir(join(temporary, "kustomize-2"));

  await diff();

  expect(await readdir(mirrors)).toEqual(["library-abc123"]);
  expect((await readdir(temporary)).toSorted()).toEqual(["go-embedded-python", "kustomize-2"]);
});

test("a work directory that cannot be used is named, with what to do, until it is usable", async () => {
  const { dir, diff, kluctl } = await useFake(emptyResult);
  const work = join(dir, "work");
  await writeFile(work, "in the way");

  for (const failed of [await failure(kluctl.version()), await failure(diff())]) {
    expect(failed).toBeInstanceOf(KluctlUnavailableError);
    expect(failed?.message).toMatch(`kluctl cannot work in ${work}: ${work} is not a directory. Remove it, or move`);
  }

  await rm(work);
  expect(await kluctl.version()).toBe("2.22.1");
});

test("a work directory that was removed while the server runs is created again", async () => {
  const { dir, kluctl } = await useFake(emptyResult);
  await kluctl.version();

  await rm(join(dir, "work"), { recursive: true });
  await createFakeKluctl(dir, emptyResult, "2.28.2");

  expect(await kluctl.version()).toBe("2.28.2");
});

test("the system's Python is used if kluctl supports it; otherwise a warning is logged once", async () => {
  const body = `echo "$@" >> $here/arguments; ${emptyResult}`;
  const [newer, older] = [
    await useFake(body, { systemPython: true }, "2.28.2"),
    await useFake(body, { systemPython: true }, "2.24.1"),
  ];
  for (const { diff } of [newer, older, older]) await diff();

  expect(await newer.seen("arguments")).toContain("--use-system-python");
  expect(await older.seen("arguments")).not.toContain("--use-system-python");
  const told = ({ lines }: typeof newer) => lines.filter(({ msg }) => String(msg).includes("the system's Python"));
  expect(told(newer)).toEqual([]);
  expect(told(older)).toMatchObject([{ level: 40, version: "2.24.1" }]);
});
