/** Compares the chaos harness's model of kluctl with the real one, for the projects that the harness deploys. */
import { execFile } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { startJournal } from "../../../dev/chaos/journal.ts";
import { writeModelKluctl } from "../../../dev/chaos/model-program.ts";
import { createPlan } from "../../../dev/chaos/projects.ts";
import { createWorkCopy, type WorkCopy } from "../../../dev/parts/work-copy.ts";
import { inputsOf } from "../../../src/model/project-inputs.ts";
import type { CommandResult } from "../../../src/model.ts";
import { fakeHeld, newKluctl, newRun, noDeployOptions } from "../../support/fake-kluctl.ts";
import { patience } from "../../support/patience.ts";
import { useCluster, useGitServer, useKluctl, useTempDir } from "../../support/world.ts";

/** The parts of a result that servers base decisions on. */
function gist(result: CommandResult) {
  const objects = result.objects.map(({ ref, changes, new: isNew, orphan, deleted }) => ({
    ref,
    new: isNew,
    orphan,
    deleted,
    // Model and kluctl add different labels and annotations.
    changes: changes
      .filter(({ jsonPath }) => jsonPath.startsWith("data."))
      .map(({ type, jsonPath, oldValue, newValue }) => ({ type, jsonPath, oldValue, newValue })),
  }));
  const { discriminator } = result.document["target"] as { discriminator?: string };
  return {
    objects: objects.toSorted((a, b) => a.ref.name.localeCompare(b.ref.name)),
    errors: result.errors,
    inputs: inputsOf(result.document),
    discriminator,
    command: (result.document["command"] as { command: string }).command,
    commit: (result.document["gitInfo"] as { commit: string }).commit,
  };
}

test.each(["mono-a", "mono-shared", "site-includes"])(
  "the model and the real kluctl agree on %s before, between and after deploys",
  async (name) => {
    const [real, cluster, git, dir] = [await useKluctl(), await useCluster(), await useGitServer(), await useTempDir()];
    const journal = await startJournal({
      socket: join(dir, "journal"),
      replicaOf: (server) => server,
      deploymentOf: (discriminator) => discriminator,
      holderOf: () => Promise.resolve(""),
    });
    onTestFinished(() => journal.stop());
    const model = join(dir, "model");
    await writeModelKluctl(model, { socket: journal.socket, pauseMs: 0 });
    const copies = new Map<string, WorkCopy>();
    const plan = createPlan(cluster.namespace, (repo) => `${git.url}/${repo}.git`);
    for (const repo of plan.repositories) {
      const copy = await createWorkCopy(join(dir, "work", repo), await git.createRepository(repo));
      copies.set(repo, copy);
      await copy.push(Object.fromEntries(plan.files(repo)));
    }
    const deployment = plan.deployments.find((one) => one.name === name)!;
    const root = join(dir, "work", deployment.repo);
    const copy = copies.get(deployment.repo)!;
    await copy.git("checkout", "--quiet", "--detach");

    const run = (projectDir: string) =>
      newRun({
        projectDir,
        target: "prod",
        args: { deployment: `${cluster.namespace}/${name}` },
        held: fakeHeld(),
      });
    const kluctls = [real, model].map((binary, i) =>
      newKluctl(join(dir, `kluctl-${i}`), {
        binary,
        kubeconfigFor: () => readFileSync(cluster.kubeconfig, "utf8"),
        limits: { leaseSilenceMs: patience.timeout }, // this lease is never renewed
      }),
    );
    onTestFinished(() => Promise.all(kluctls.map((one) => one.stop())).then(() => undefined));
    const { signal } = new AbortController();
    const [theReal, theModel] = kluctls as [(typeof kluctls)[0], (typeof kluctls)[0]];
    const project = join(root, deployment.path);
    const bothDiff = async () => {
      const [one, other] = [
        await theReal.diff(run(project), noDeployOptions, signal),
        await theModel.diff(run(project), noDeployOptions, signal),
      ];
      expect(gist(other)).toEqual(gist(one));
      return gist(one);
    };

    expect((await bothDiff()).objects.every((object) => object.new)).toBe(true);
    const deployed = gist(await theModel.deploy(run(project), noDeployOptions, signal));
    expect(deployed.objects.every((object) => object.new)).toBe(true);
    expect((await bothDiff()).objects.every((object) => !object.new && object.changes.length === 0)).toBe(true);

    await copy.commit({ [plan.contentFile(deployment, "a")]: plan.content(deployment, "a", "blue") });
    await copy.git("checkout", "--quiet", "--detach");
    expect((await bothDiff()).objects.flatMap(({ changes }) => changes)).toMatchObject([{ jsonPath: "data.color" }]);
    const again = gist(await theReal.deploy(run(project), noDeployOptions, signal));
    expect(again.objects.flatMap(({ changes }) => changes)).toMatchObject([{ newValue: "blue" }]);
    const { discriminator = "" } = await bothDiff();
    const deleting = { discriminator, dryRun: false };
    const gone = gist(await theModel.delete(run(project), deleting, signal));
    await theReal.deploy(run(project), noDeployOptions, signal);
    // The real one finds objects in an order of its own, and says no more of what it has deleted.
    const names = ({ objects }: typeof gone) =>
      objects.map(({ ref: { kind, name }, deleted }) => ({ kind, name, deleted }));
    expect(names(gone)).toEqual(names(gist(await theReal.delete(run(project), deleting, signal))));
    expect(journal.runs().map(({ command, wrote, exitCode }) => ({ command, wrote, exitCode }))).toEqual(
      ["diff", "deploy", "diff", "diff", "diff", "delete"].map((command) => ({
        command,
        wrote: command === "diff" ? 0 : deployed.objects.length,
        exitCode: 0,
      })),
    );
  },
);

test.each([
  { what: "another repository that cannot be cloned is no fault of the project", includes: true, refuses: false },
  {
    what: "a project that the model refuses and kluctl accepts is a fault of the model",
    includes: false,
    refuses: true,
  },
])("beside the real kluctl, $what", async ({ includes, refuses }) => {
  const dir = await useTempDir();
  const journal = await startJournal({
    socket: join(dir, "journal"),
    replicaOf: (server) => server,
    deploymentOf: (discriminator) => discriminator,
    holderOf: () => Promise.resolve(""),
  });
  onTestFinished(() => journal.stop());
  const [accepting, model, kubeconfig] = ["accepting", "model", "kubeconfig"].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(accepting, "#!/bin/sh\nexit 0\n");
  chmodSync(accepting, 0o755);
  writeFileSync(
    kubeconfig,
    JSON.stringify({ clusters: [{ cluster: { server: "http://127.0.0.1:1" } }], users: [{ user: {} }] }),
  );
  await writeModelKluctl(model, { socket: journal.socket, pauseMs: 0, real: accepting });
  const project = await createWorkCopy(join(dir, "work"), "http://127.0.0.1:1/shop.git");
  await project.commit({
    ".kluctl.yaml": "discriminator: shop\n",
    "deployment.yaml": includes
      ? "deployments: [{ git: { url: 'http://127.0.0.1:1/away.git', subDir: part } }]\n"
      : "deployments: [\n",
  });
  const env = { PATH: process.env["PATH"], KUBECONFIG: kubeconfig, TMPDIR: dir };
  const ended = await promisify(execFile)(model, ["diff", `--project-dir=${project.dir}`], { env }).then(
    () => "",
    ({ stderr }: { stderr: string }) => stderr,
  );
  expect(ended.includes("accepts a project that the model of it refuses")).toBe(refuses);
  expect(journal.runs().map(({ exitCode }) => exitCode)).toEqual([refuses ? 1 : 0]);
});
