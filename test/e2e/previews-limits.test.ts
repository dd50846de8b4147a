/** When a preview ends: with a newer commit, with its pull request, at a fork, and at the limits of its account. */
import { existsSync } from "node:fs";
import { access, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { createAccount } from "../support/accounts.ts";
import { journaled, useJournal } from "../support/journal.ts";
import { findRunsOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { giteaVariables, rendersWhile, usePullRequestHost, usePullRequests } from "../support/pull-requests.ts";
import { useTowline } from "../support/towline.ts";
import { patience } from "../support/patience.ts";
import { useWorld, type TestWorld } from "../support/world.ts";

/** Templates wait as long as this file exists. */
async function useGate({ dir }: TestWorld): Promise<{ readonly file: string; open(): Promise<void> }> {
  const file = join(dir, "gate");
  await writeFile(file, "");
  return { file, open: () => rm(file) };
}

/** The kluctl processes of projects with a template that waits at the gate. */
function waiting({ dir }: TestWorld): number[] {
  const isSlow = (command: string) => {
    const [, project] = /--project-dir=(\S+)/.exec(command) ?? [];
    return project !== undefined && existsSync(join(project, "app/slow.yml"));
  };
  return findRunsOf(dir, process.pid).flatMap(({ pid, command }) => (isSlow(command) ? pid : []));
}

test("a newer head ends the older one's preview with all its processes, and the older result is not published", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  const gate = await useGate(world);
  await pulls.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();

  const pull = await pulls.open({
    ...aProject({ namespace, data: { color: "purple" } }),
    "app/slow.yml": rendersWhile(gate.file, { namespace }),
  });
  await pull.comment("comparing 1 deployment");
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: "pending: comparing 1 deployment" });
  await expect.poll(() => waiting(world), patience).not.toEqual([]);
  let running = findRunsOf(world.dir, process.pid);
  const programs = () => (running = findRunsOf(world.dir, process.pid)).map(({ command }) => command.split(" ")[0]);
  await expect.poll(programs, patience).toContain(world.kluctl);
  const [comment] = await pull.comments();

  const head = await pull.push({ ...aProject({ namespace, data: { color: "teal" } }), "app/slow.yml": undefined });
  await expect
    .poll(
      () => findRunsOf(world.dir, process.pid).filter(({ pid }) => running.some((one) => one.pid === pid)),
      patience,
    )
    .toEqual([]);
  const body = await pull.comment("teal");
  expect(body).not.toContain("purple");
  expect(body).toContain(head.slice(0, 7));
  expect((await pull.comments()).map(({ id }) => id)).toEqual([comment?.id]);
  const superseded = `warning: superseded by ${head.slice(0, 7)}`;
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toEqual({ towline: superseded, [`towline/${deployment.key}`]: superseded });
  await expect
    .poll(() => pulls.statuses(head), patience)
    .toMatchObject({ towline: expect.stringMatching("success: ") });
});

test("a base branch that moves ends a preview too, but only a limited number of times", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  // Without sweeps, so that only the pushes count as moves.
  const pulls = await usePullRequests(world, { TOWLINE_SWEEP_INTERVAL: "1h" });
  const gate = await useGate(world);
  await pulls.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();

  const pull = await pulls.open({ "app/slow.yml": rendersWhile(gate.file, { namespace }) });
  await pull.comment("comparing 1 deployment"); // from here on, the server knows which pull requests the base branch affects
  await expect.poll(() => waiting(world), patience).not.toEqual([]);
  // Deploys and sweeps count as moves too, so a push may end the preview up to three times in total.
  let base = "";
  const endedBy = async (times: number): Promise<boolean> => {
    const before = waiting(world);
    base = await pulls.repo.push({ README: `moved ${times} times\n` });
    await deployment.settles(base);
    const ended = () => expect(waiting(world).filter((pid) => before.includes(pid))).toEqual([]);
    // The first time it has to end, the last time it must not, so the wait is shorter.
    return vi.waitFor(ended, times === 1 ? patience : { timeout: 6_000, interval: 100 }).then(
      () => true,
      () => false,
    );
  };
  let ended = 0;
  while (ended < 4 && (await endedBy(ended + 1))) {
    ended++;
    await expect.poll(() => waiting(world), patience).not.toEqual([]);
  }
  expect(ended).toBeGreaterThanOrEqual(1);
  expect(ended).toBeLessThanOrEqual(3);

  await gate.open();
  const body = await pull.comment("took");
  expect(body).toContain("slow");
  await pull.comment(`at \`${base.slice(0, 7)}\``);
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: expect.stringMatching("success: ") });
});

test("a preview that was superseded without a webhook is not posted, because head and base are read again before", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const host = await usePullRequestHost();
  const towline = await useTowline(world, giteaVariables(host.gitea));
  const stopTelling = await host.tell(towline);
  const gate = await useGate(world);
  await host.repo.push(aProject({ namespace }));
  await world.cluster.deployment("shop").create(aSpec(host.repo.url, { suspend: true }));
  const slow = rendersWhile(gate.file, { namespace });
  const moving = await host.open({ ...aProject({ namespace, data: { color: "purple" } }), "app/slow.yml": slow });
  const still = await host.open({ ...aProject({ namespace, data: { color: "orange" } }), "app/slow.yml": slow });
  for (const pull of [moving, still]) await pull.comment("comparing 1 deployment");

  await stopTelling(); // as if webhooks were lost
  const head = await moving.push({ ...aProject({ namespace, data: { color: "teal" } }), "app/slow.yml": undefined });
  const base = await host.repo.push({ README: "moved\n" });
  await gate.open();

  const body = await moving.comment("teal");
  expect(body).toContain(head.slice(0, 7));
  expect(body).not.toMatch(/purple|slow/);
  for (const pull of [moving, still]) await pull.comment(`at \`${base.slice(0, 7)}\``);
  const told = (commit: string) =>
    towline.lines.filter((line) => line.msg === "reported" && line["state"] === "done" && line["head"] === commit);
  await expect
    .poll(() => [moving.head, head, still.head].map((commit) => told(commit).length), patience)
    .toEqual([0, 1, 1]);
});

test("closing or merging a pull request ends its comparison, and if nothing was posted before, nothing is posted then", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const pulls = await usePullRequests(world, { ...journaled, TOWLINE_KLUCTL: journal.kluctl });
  await pulls.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url, { suspend: true }));
  const running = () => journal.runs().filter(({ exitCode }) => exitCode === undefined);
  const ended = () => findRunsOf(world.dir, process.pid).filter(({ command }) => command.includes("--project-dir="));
  const release = await journal.hold("true");

  const closed = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  await expect.poll(() => running().length, patience).toBe(1);
  const told = await closed.comments();
  await closed.edit({ state: "closed" });
  await expect.poll(ended, patience).toEqual([]);
  // The comparison may have been announced while the pull request was being closed; nothing else may be left of it.
  const bodies = async () => (await closed.comments()).map(({ body }) => body);
  const isOver = async () => (await bodies()).every((body) => body.includes("closed without merging"));
  await expect.poll(isOver, patience).toBe(true);
  expect((await bodies()).length).toBeGreaterThanOrEqual(told.length);

  const merged = await pulls.open(aProject({ namespace, data: { color: "green" } }));
  await merged.comment("comparing 1 deployment");
  await merged.merge();
  await expect.poll(ended, patience).toEqual([]);
  await merged.comment("merged into `main`");
  await expect
    .poll(() => pulls.statuses(merged.head), patience)
    .toEqual({ towline: "warning: merged", [`towline/${deployment.key}`]: expect.stringMatching("warning: ") });
  await release();
  expect(await isOver()).toBe(true);
});

test("nothing of a fork is fetched or rendered, the comment says so and why, and the status succeeds", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const dataDir = join(world.dir, "data");
  const variables = { ...journaled, TOWLINE_KLUCTL: journal.kluctl, TOWLINE_DATA_DIR: dataDir };
  const pulls = await usePullRequests(world, variables);
  const base = await pulls.repo.push({ ...aProject({ namespace }), "app/other.yml": "" });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const runs = journal.runs().length;
  const canary = join(world.dir, "canary");

  const evil = `{{ lipsum.__globals__.os.popen('touch ${canary}').read() }}\n`;
  const pull = await pulls.openFromFork("app/other.yml", evil);
  const body = await pull.comment("not rendered, because it comes from a fork");
  expect(body).toContain("runs its code");
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toEqual({ towline: "success: not rendered: it comes from a fork" });
  expect(journal.runs()).toHaveLength(runs);
  await expect(access(canary)).rejects.toThrow("ENOENT");
  const mirrors = join(dataDir, "git", "mirrors");
  const has = (mirror: string, commit: string) =>
    pulls.repo.git("--git-dir", join(mirrors, mirror), "cat-file", "-t", commit);
  for (const mirror of await readdir(mirrors)) {
    expect(await has(mirror, base)).toBe("commit");
    await expect(has(mirror, pull.head)).rejects.toThrow();
  }

  await pull.edit({ state: "closed" });
  await pull.comment("closed without merging");
});

test("a user's comment that copies our marker is neither edited nor deleted", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  await pulls.repo.push(aProject({ namespace }));
  await world.cluster.deployment("shop").create(aSpec(pulls.repo.url, { suspend: true }));
  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  const copied = await pull.comment("blue");
  const [ours] = await pull.comments();
  const somebody = await pulls.somebody();
  const at = `${pulls.path}/issues/${pull.number}/comments`;
  const theirs = await somebody.call<{ id: number }>("POST", at, { body: copied });

  await pull.push(aProject({ namespace, data: { color: "green" } }));
  await pull.comment("green");
  const all = await pulls.gitea.call<{ id: number; body: string }[]>("GET", at);
  expect(all.map(({ id }) => id)).toEqual([ours?.id, theirs.id]);
  expect(all[1]?.body).toBe(copied);
});

test("previews use the account configured for them; deploys, and previews without one, use the deployment's own", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  await createAccount(cluster, "deployer");
  await cluster.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "previewer" } });
  const host = await usePullRequestHost();
  const restricted = await useTowline(world, {
    ...giteaVariables(host.gitea),
    TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: "previewer",
  });
  const stopTelling = await host.tell(restricted);
  await host.repo.push(aProject({ namespace, name: "{{ args.name }}" }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(host.repo.url, { serviceAccountName: "deployer", args: { name: "shop" } }));
  await deployment.reaches("Ready");

  const blue = aProject({ namespace, name: "{{ args.name }}", data: { color: "blue" } });
  const pull = await host.open(blue);
  const forbidden = await pull.comment("forbidden");
  expect(forbidden).toContain(`system:serviceaccount:${namespace}:previewer`);
  await expect
    .poll(() => host.statuses(pull.head), patience)
    .toMatchObject({ towline: expect.stringMatching("failure: ") });
  await pull.merge();
  await expect.poll(() => cluster.data("shop"), patience).toEqual({ color: "blue" });

  await stopTelling();
  await restricted.stop();
  const own = { TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: "" };
  await host.tell(await useTowline(world, { ...giteaVariables(host.gitea), ...own }));
  const job = { apiVersion: "v1", kind: "Secret", metadata: { name: "beyond", namespace } };
  const beyond = await host.open({ "app/beyond.yml": JSON.stringify(job) });
  expect(await beyond.comment("forbidden")).toContain(`system:serviceaccount:${namespace}:deployer`);
});
