import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Run } from "../../../dev/chaos/history.ts";
import { findLeftovers } from "../../../dev/chaos/leftovers.ts";

/** A server with these directories and processes. */
async function aReplica(directories: readonly string[], { isAlive = true, processes = [] as readonly string[] } = {}) {
  const dataDir = await mkdtemp(join(tmpdir(), "towline-leftovers-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  for (const one of directories) await mkdir(join(dataDir, one), { recursive: true });
  const orphans = () => processes.map((command, i) => ({ pid: i + 1, command }));
  return { name: "r1", dataDir, isAlive: () => isAlive, orphans };
}

const find = (replica: Awaited<ReturnType<typeof aReplica>>, runs: readonly Partial<Run>[] = []) =>
  findLeftovers([replica], { runs: () => runs as readonly Run[] }, 0);

test("a process of an ended server is left, also if the server is dead", async () => {
  const replica = await aReplica([], { isAlive: false, processes: ["kluctl deploy"] });
  expect(await find(replica)).toEqual(["r1: process 1: kluctl deploy"]);
});

test("the work directory of a run is left once no run is alive", async () => {
  const replica = await aReplica(["kluctl-work/7-abc", "kluctl-work/shared", "sources"]);
  expect(await find(replica, [{ endedAt: 1 }])).toEqual(["r1: work directory 7-abc"]);
  expect(await find(replica, [{ endedAt: undefined }])).toEqual([]);
});

test("a dead server removes its work directories when it comes back", async () => {
  expect(await find(await aReplica(["kluctl-work/7-abc"], { isAlive: false }))).toEqual([]);
});

test("a work directory that is gone at the second look was in use", async () => {
  const replica = await aReplica(["kluctl-work/7-abc"]);
  const looks: string[] = [];
  const watched = {
    ...replica,
    get dataDir() {
      looks.push("look");
      return looks.length === 1 ? replica.dataDir : join(replica.dataDir, "elsewhere");
    },
  };
  expect(await find(watched)).toEqual([]);
});
