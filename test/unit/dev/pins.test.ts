import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findPins, pinnedFiles } from "../../../dev/image/pins.ts";
import { lint } from "../../../dev/image/lint.ts";
import { parseDockerfile } from "../../../dev/image/dockerfile.ts";

const root = join(import.meta.dirname, "../../..");
const digest = `sha256:${"0123456789abcdef".repeat(4)}`;

function useDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "towline-pins-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

test("docker's digests are written beside the tags, and the check fails until then", () => {
  const dir = useDir();
  for (const file of pinnedFiles) {
    mkdirSync(dirname(join(dir, file)), { recursive: true });
    cpSync(join(root, file), join(dir, file));
    // Start without any pinned digest.
    const text = readFileSync(join(dir, file), "utf8");
    writeFileSync(join(dir, file), text.replaceAll(/@sha256:[0-9a-f]{64}/g, ""));
  }
  const docker = join(dir, "docker");
  writeFileSync(docker, `#!/bin/sh\necho "$4" >> "${dir}/asked"\necho ${digest}\n`);
  chmodSync(docker, 0o755);
  const pin = (...args: string[]) => {
    const env = { PATH: `${dir}:${process.env["PATH"]}` };
    const { status, stderr } = spawnSync(process.execPath, [join(root, "dev/pin.ts"), "--root", dir, ...args], {
      env,
      encoding: "utf8",
    });
    return { status, stderr };
  };

  const unpinned = pin("--check");
  expect(unpinned.status).toBe(1);
  expect(unpinned.stderr).toMatch(/^Dockerfile: node:24-trixie-slim has no digest$/m);
  expect(unpinned.stderr).toMatch(/^dev\/chart\/values.ts: valkey\/valkey:[\d.]+ has no digest$/m);
  expect(pin()).toMatchObject({ status: 0 });
  expect(pin("--check")).toMatchObject({ status: 0 });
  const pins = pinnedFiles.flatMap((file) => findPins(file, readFileSync(join(dir, file), "utf8")));
  expect(pins.map((one) => one.digest)).toEqual(pins.map(() => digest));
  expect(new Set(readFileSync(join(dir, "asked"), "utf8").trim().split("\n"))).toEqual(
    new Set(pins.map(({ reference }) => reference)),
  );
  expect(lint(parseDockerfile(readFileSync(join(dir, "Dockerfile"), "utf8")))).toEqual([]);

  writeFileSync(docker, "#!/bin/sh\necho no such image\n");
  const failed = pin();
  expect(failed.status).toBe(1);
  expect(failed.stderr).toContain("docker returned no digest for node:24-trixie-slim");
});

test("apt installs packages from a snapshot of one day, at the snapshot URL that the base image names", () => {
  const dir = useDir();
  const sources = join(dir, "debian.sources");
  const archive = (name: string) =>
    `Types: deb\n# http://snapshot.example.com/archive/${name}/20260224T000000Z\nURIs: http://deb.example.com/${name}\nSuites: trixie\n`;
  const before = `${archive("debian")}\n${archive("debian-security")}`;
  const run = (date: string, text: string) => {
    writeFileSync(sources, text);
    const args = [join(root, "image/apt-snapshot"), date, sources, join(dir, "options")];
    const { status, stderr } = spawnSync("sh", args, { encoding: "utf8" });
    return { status, stderr, text: readFileSync(sources, "utf8") };
  };

  expect(run("", before)).toEqual({ status: 0, stderr: "", text: before });
  const { status, text } = run("20261101T000000Z", before);
  expect(status).toBe(0);
  expect(text.match(/^URIs: .*$/gm)).toEqual([
    "URIs: http://snapshot.example.com/archive/debian/20261101T000000Z/",
    "URIs: http://snapshot.example.com/archive/debian-security/20261101T000000Z/",
  ]);
  expect(readFileSync(join(dir, "options"), "utf8")).toContain("Check-Valid-Until");
  for (const date of ["2026-11-01", "20261101T000000Z/..", "latest"])
    expect(run(date, before)).toMatchObject({
      status: 1,
      text: before,
      stderr: expect.stringContaining("is not a date"),
    });
  const half = before.replace(/^# .*debian-security.*\n/m, "");
  expect(run("20261101T000000Z", half)).toMatchObject({ status: 1, text: half });
});
