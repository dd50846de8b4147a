import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { expand, parseDockerfile, toPairs } from "../../../dev/image/dockerfile.ts";
import { lint } from "../../../dev/image/lint.ts";
import { withoutDigest } from "../../../dev/image/pins.ts";

const ours = readFileSync(join(import.meta.dirname, "../../../Dockerfile"), "utf8");

test("the project's Dockerfile follows the linter's rules", () => {
  expect(lint(parseDockerfile(ours))).toEqual([]);
});

test("the image has Node 24, a Debian whose git is new enough, and the OCI labels", () => {
  const { stages } = parseDockerfile(ours);
  expect(new Set(stages.map(({ from }) => withoutDigest(from)))).toEqual(new Set(["node:24-trixie-slim"]));
  const last = stages.at(-1)?.instructions ?? [];
  const labels = last.filter(({ name }) => name === "LABEL").flatMap(({ text }) => Object.keys(toPairs(text)));
  const names = ["title", "description", "version", "revision", "licenses"];
  expect(labels).toEqual(names.map((name) => `org.opencontainers.image.${name}`));
});

test("each rule finds the mistake that it is for", () => {
  const problems = (text: string) => lint(parseDockerfile(text)).map((problem) => problem.split(":")[0]);
  const sound =
    'FROM node:24-slim\nUSER 65532:0\nHEALTHCHECK --interval=1s CMD ["true"]\nENTRYPOINT ["a"]\nCMD ["b"]\n';
  expect(problems(sound)).toEqual([]);
  const bad: [string, string][] = [
    ["RUN apt-get update && apt-get install --yes --no-install-recommends git", "DL3009"],
    ["RUN apt-get install --no-install-recommends git", "DL3014"],
    ["RUN apt-get install -y git", "DL3015"],
    ["RUN sudo true", "DL3004"],
    ["RUN cd /tmp", "DL3003"],
    ["RUN apt install x", "DL3027"],
    ["RUN a | b", "DL4006"],
    ["RUN curl -o x http://x", "checksum"],
    ["WORKDIR app", "DL3000"],
    ["COPY --from=nobody a b", "DL3022"],
    ["USER root", "DL3002"],
  ];
  for (const [line, rule] of bad) expect(problems(`${sound}${line}\n`), line).toEqual([rule]);
  expect(problems(sound.replace("node:24-slim", "node:latest"))).toEqual(["DL3006"]);
  expect(problems(sound.replace('["b"]', "b"))).toEqual(["DL3025"]);
  expect(problems(sound.replace('CMD ["b"]\n', ""))).toEqual(["DL4003"]);
});

test("continued lines are joined across comments, and an unknown instruction is an error", () => {
  const { args, stages } = parseDockerfile(
    'ARG BASE=a:1\n# nothing\nFROM ${BASE} AS one\nRUN a \\\n# why\n  && b\nCOPY --from=one --chown=1:2 x y\nCMD ["c", "d"]\n',
  );
  expect(args).toEqual({ BASE: "a:1" });
  expect(stages).toMatchObject([
    {
      from: "a:1",
      name: "one",
      instructions: [
        { line: 4, name: "RUN", text: "a   && b" },
        { name: "COPY", flags: { from: "one", chown: "1:2" }, text: "x y" },
        { name: "CMD", list: ["c", "d"] },
      ],
    },
  ]);
  expect(() => parseDockerfile("FROM a\nADD x y")).toThrow("line 2: ADD");
  expect(() => parseDockerfile("RUN x")).toThrow("before the first FROM");
  expect(expand("$A ${B} ${C:-c}${D}", { A: "1", B: "2" })).toBe("1 2 c");
});

test("the image build accepts only the kluctl binary with the expected checksum", () => {
  const dir = mkdtempSync(join(tmpdir(), "towline-image-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const { stages } = parseDockerfile(ours);
  const all = stages.find(({ name }) => name === "kluctl")?.instructions ?? [];
  const named = all.filter(({ name, text }) => name === "ARG" && text.includes("="));
  const defaults = Object.assign({}, ...named.map(({ text }) => toPairs(text))) as Record<string, string>;
  const script = all.find(({ name, text }) => name === "RUN" && text.includes("sha256sum"))?.text ?? "";
  const inDir = script.replaceAll("/tmp/", `${dir}/`).replaceAll("/usr/local/bin", dir);
  writeFileSync(join(dir, "kluctl"), "#!/bin/sh\necho it is kluctl\n", { mode: 0o700 });
  spawnSync("tar", ["-czf", "released", "kluctl"], { cwd: dir });
  rmSync(join(dir, "kluctl"));
  const released = readFileSync(join(dir, "released"));
  writeFileSync(
    join(dir, "curl"),
    `#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\necho "$3" > "${dir}/asked"\ncp "${dir}/released" "$2"\n`,
    { mode: 0o700 },
  );
  const build = (args: Record<string, string>) => {
    const env = { PATH: `${dir}:${process.env["PATH"]}`, ...defaults, ...args };
    const { status, stdout, stderr } = spawnSync("sh", ["-c", inDir], { env, encoding: "utf8" });
    return { status, said: stdout + stderr, taken: existsSync(join(dir, "kluctl")) };
  };

  const none = build({ TARGETARCH: "arm64" });
  expect(none).toMatchObject({ status: 1, taken: false });
  expect(none.said).toContain("kluctl_v2.28.2_linux_arm64.tar.gz is missing: pass --build-arg KLUCTL_SHA256_ARM64=");
  expect(build({ TARGETARCH: "riscv64" }).said).toContain("build for amd64 or arm64");
  expect(existsSync(join(dir, "asked"))).toBe(false);
  const other = build({ TARGETARCH: "amd64", KLUCTL_SHA256_AMD64: "0".repeat(64) });
  expect(other).toMatchObject({ status: 1, taken: false });
  expect(other.said).toContain("FAILED");

  const sha256 = createHash("sha256").update(released).digest("hex");
  const right = build({ TARGETARCH: "amd64", KLUCTL_SHA256_AMD64: sha256 });
  expect(right, right.said).toMatchObject({ status: 0, taken: true });
  expect(right.said).toContain("it is kluctl");
  expect(readFileSync(join(dir, "asked"), "utf8")).toMatch(/\/v2\.28\.2\/kluctl_v2\.28\.2_linux_amd64\.tar\.gz\n$/);
});
