/** What a server sends to its preview runner, and how it handles the results. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { withRunner } from "../../../src/app/runner-kluctl.ts";
import { NeedsMoreError, PreviewRefusedError } from "../../../src/errors.ts";
import type { KluctlProcesses } from "../../../src/kluctl/kluctl.ts";
import { printedBytes } from "../../../src/kluctl/offline.ts";
import type { Assignment } from "../../../src/preview-runner/dispatch.ts";
import type { TaskOutcome } from "../../../src/preview-runner/task.ts";
import { newRun } from "../../support/fake-kluctl.ts";
import { useTempDir } from "../../support/world.ts";

const all = { files: "Landlock", processes: "seccomp", credentials: "a proxy", network: "Landlock" };
const never = new AbortController().signal;

/** A runner that gives this answer, and a deployment with a login and a key. */
async function useRender(answer: { provided?: object; result?: string; outcome?: TaskOutcome } = {}) {
  const { provided = all, result, outcome = { done: true } } = answer;
  const workDir = await useTempDir();
  const sent: Assignment["task"][] = [];
  const ran: string[] = [];
  const refuse = () => Promise.reject(new Error("nobody may have that"));
  const kluctl = withRunner({
    kluctl: { render: refuse, diff: refuse } as unknown as KluctlProcesses,
    dispatch: {
      async run({ task, accept, result: file }) {
        accept({ version: "1", provided: { ...provided }, missing: {} });
        sent.push(task);
        if (result !== undefined) await writeFile(file, result);
        return outcome;
      },
      examine: refuse,
    },
    isolation: { mode: "auto", runner: "previews:8092", provided: {}, missing: {} },
    confine: { open: refuse },
    workDir,
    observe: { ran: (command, _seconds, how) => void ran.push(`${command} ${how}`) },
  });
  const run = newRun({
    ...{ slot: workDir, projectDir: join(workDir, "clone"), target: "prod" },
    credentials: {
      git: [{ host: "git.example.com", secretName: "login", username: "me", password: "a-password" }],
      ...{ oci: [], helm: [] },
    },
    decryption: { data: { "age.agekey": "AGE-SECRET-KEY-1" } },
  });
  return { sent, ran, render: () => kluctl.render(run, { kubernetesVersion: "v1.32.2" }, never) };
}

test("the runner renders a fork without any access, login or key", async () => {
  const { sent, ran, render } = await useRender({
    result: "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
  });

  expect((await render()).objects.map(({ ref }) => ref)).toEqual([
    { version: "v1", kind: "ConfigMap", name: "settings" },
  ]);

  expect(sent).toMatchObject([
    {
      call: { command: "render", options: { kubernetesVersion: "v1.32.2" } },
      run: { target: "prod", credentials: { git: [], oci: [], helm: [] } },
      projectDir: "clone",
    },
  ]);
  expect(JSON.stringify(sent)).not.toMatch(/a-password|AGE-SECRET-KEY|kubeconfig|ports/);
  expect(ran).toEqual(["render ok"]);
});

test("a fork is not sent to a runner that lacks an isolation property, even if mode auto allows branches", async () => {
  for (const property of Object.keys(all)) {
    const provided = Object.fromEntries(Object.entries(all).filter(([name]) => name !== property));
    const { sent, render } = await useRender({ provided });
    await expect(render()).rejects.toBeInstanceOf(PreviewRefusedError);
    expect(sent).toEqual([]);
  }
});

test("the error of the runner's kluctl shows which access a fork needs", async () => {
  const failed = (message: string): { outcome: TaskOutcome } => ({ outcome: { failed: "prepare", message } });
  const needs = async (message: string) => (await useRender(failed(message))).render().catch((error: unknown) => error);

  expect(await needs("loading vars from cluster is disabled")).toMatchObject({ needs: "cluster" });
  expect(await needs("dial tcp: socket: address family not supported by protocol")).toMatchObject({ needs: "network" });
  expect(await needs("target prod not found")).not.toBeInstanceOf(NeedsMoreError);
});

test("a result longer than kluctl may print is not read", async () => {
  const { render, ran } = await useRender({ result: "x".repeat(printedBytes + 5) });

  await expect(render()).rejects.toThrow("in no format that Towline knows");
  expect(ran).toEqual(["render failed"]);
});
