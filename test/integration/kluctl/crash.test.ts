import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { createFakeKluctl, createProject, findProcesses, isRunning } from "../../support/fake-kluctl.ts";
import { useCluster, useKluctl, useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

const script = join(import.meta.dirname, "../../support/fake-kluctl-server.ts");

interface Server {
  readonly dir: string;
  readonly binary: string;
  readonly kubeconfig: string;
  readonly projectDir?: string;
  /** How long the lease may go without a renewal before kluctl is killed. */
  readonly silenceMs?: number;
}

function startServer({
  dir,
  binary,
  kubeconfig,
  projectDir = dir,
  silenceMs = 1_500,
}: Server): ChildProcess & { pid: number } {
  const args = [script, dir, binary, kubeconfig, projectDir, String(silenceMs)];
  const server = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void server.kill("SIGKILL"));
  return server as ChildProcess & { pid: number };
}

/** A kluctl that writes to a journal forever. */
async function useJournal(silenceMs?: number) {
  const dir = await useTempDir();
  const binary = await createFakeKluctl(
    dir,
    `echo $$ > $here/pid; while :; do date +%s.%N >> $here/journal; sleep 0.05; done`,
  );
  const kubeconfig = join(dir, "kubeconfig");
  await writeFile(kubeconfig, "{}");
  const server = startServer({ dir, binary, kubeconfig, ...(silenceMs && { silenceMs }) });
  const journal = () => readFile(join(dir, "journal"), "utf8");
  await vi.waitFor(async () => expect((await journal()).length).toBeGreaterThan(100), patience);
  return { dir, server, journal, pid: Number(await readFile(join(dir, "pid"), "utf8")) };
}

test("a frozen server's kluctl is killed within the lease's silence limit, and the server reports it when it wakes", async () => {
  const { server, pid, journal } = await useJournal();
  const said = text(server.stdout!);
  // Works for twice the silence limit while the lease is renewed: elapsed time alone does not kill it.
  const written = (await journal()).length;
  await vi.waitFor(async () => expect((await journal()).length).toBeGreaterThan(written + 1_000), patience);

  server.kill("SIGSTOP");
  await vi.waitFor(() => expect(isRunning(pid)).toBe(false), patience);
  server.kill("SIGCONT");
  expect(await said).toMatch(/^KilledError: kluctl deploy was killed \(SIGKILL\)/);
});

test("a killed server's kluctl dies at once", async () => {
  const { server, pid, dir } = await useJournal(300_000); // so that the silence limit does not kill it

  server.kill("SIGKILL");
  await vi.waitFor(() => expect(isRunning(pid)).toBe(false), patience);

  await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
});

test("the real kluctl and its Python die with the server in the middle of a deploy", async () => {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const stuck = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: stuck, namespace: ${cluster.namespace}, annotations: {kluctl.io/wait-readiness: "true"}}
spec:
  selector: {matchLabels: {app: stuck}}
  template:
    metadata: {labels: {app: stuck}}
    spec: {nodeSelector: {nowhere: "1"}, containers: [{name: app, image: registry.example/app}]}`;
  const projectDir = await createProject(join(dir, "project"), {
    "deployment.yaml": "deployments: [{path: app}]",
    "app/one.yaml": stuck,
  });
  const server = startServer({ dir, binary, kubeconfig: cluster.kubeconfig, projectDir });
  await vi.waitFor(async () => expect(await cluster.find("apps/v1", "Deployment", "stuck")).toBeDefined(), patience);
  expect((await findProcesses(dir)).length).toBeGreaterThan(5); // the server, the watchdog, kluctl, its renderers

  server.kill("SIGKILL");
  await once(server, "exit");

  await vi.waitFor(async () => expect(await findProcesses(dir)).toEqual([]), patience);
  expect(await readdir(join(dir, "work"))).toHaveLength(1); // removed by the next server
});
