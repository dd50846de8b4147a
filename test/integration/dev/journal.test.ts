/** Tests of faults rely on the journal: it has to detect what must never happen. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { expect, test, vi } from "vitest";
import { createProject } from "../../support/fake-kluctl.ts";
import { useJournal } from "../../support/journal.ts";
import { useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

test("the journal reports overlapping calls for one deployment, including killed ones, and no others", async () => {
  const dir = await useTempDir();
  const project = await createProject(`${dir}/project`, { "deployment.yaml": "deployments: []" });
  const journal = await useJournal({ dir, kluctl: "/bin/true" });
  const cwd = `${dir}/42-job`; // the server names the directories of its calls like this
  await mkdir(cwd);
  const start = (command: string, target: string) => {
    const args = [command, `--project-dir=${project}`, `--target=${target}`];
    const child = spawn(journal.kluctl, args, { cwd, detached: true, stdio: "ignore" });
    return { pid: child.pid ?? 0, ended: once(child, "exit") };
  };
  const call = (command: string, target: string) => start(command, target).ended;

  await call("deploy", "prod");
  await call("deploy", "prod");
  const release = await journal.hold("true");
  const held = [call("deploy", "staging"), call("diff", "prod"), call("deploy", "prod")];
  await vi.waitFor(() => expect(journal.runs()).toHaveLength(5), patience);
  expect(journal.overlaps()).toEqual([]);

  const killed = start("deploy", "prod");
  await vi.waitFor(() => expect(journal.overlaps()).toHaveLength(1), patience);
  process.kill(-killed.pid, "SIGKILL");
  expect(await killed.ended).toEqual([null, "SIGKILL"]);
  await release();
  await Promise.all(held);
  expect(
    journal
      .overlaps()
      .flat()
      .map(({ subject }) => subject),
  ).toEqual(["shop/prod", "shop/prod"]);
  expect(journal.deploys("shop/prod").map(({ exitCode }) => exitCode)).toEqual([0, 0, 0, undefined]);
});
