import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findTools } from "../../../dev/tools.ts";
import { useTempDir } from "../../support/world.ts";

const say = () => undefined;

test("a program on PATH is used if its version is usable; an older one is skipped", async () => {
  const dir = await useTempDir();
  await useProgram(join(dir, "old"), "kluctl", "2.19.0");
  const usable = await useProgram(join(dir, "new"), "kluctl", "2.28.2");

  const found = await findTools(["kluctl"], { say, env: { PATH: `${join(dir, "old")}:${join(dir, "new")}` } });

  expect(found).toEqual({ kluctl: usable });
});

test("a program that a variable names takes precedence over PATH", async () => {
  const dir = await useTempDir();
  await useProgram(dir, "etcd", "3.6.8");
  const named = await useProgram(join(dir, "mine"), "etcd", "3.4.1");

  const found = await findTools(["etcd"], { say, env: { PATH: dir, TOWLINE_ETCD: named } });

  expect(found).toEqual({ etcd: named });
});

test("a variable that does not name an executable is an error that names it", async () => {
  const env = { TOWLINE_KWOK: "/nowhere/kwok" };

  await expect(findTools(["kwok"], { say, env })).rejects.toThrow(
    "TOWLINE_KWOK: /nowhere/kwok is not an executable file",
  );
});

test("valkey-server stands in for redis-server", async () => {
  const dir = await useTempDir();
  const valkey = await useProgram(dir, "valkey-server", "Server v=8.0.1");

  const found = await findTools(["redis-server"], { say, env: { PATH: dir } });

  expect(found).toEqual({ "redis-server": valkey });
});

/** A program that only prints its version. */
async function useProgram(dir: string, name: string, version: string): Promise<string> {
  const path = join(dir, name);
  await mkdir(dir, { recursive: true });
  await writeFile(path, `#!/bin/sh\necho '${version}'\n`);
  await chmod(path, 0o755);
  return path;
}
