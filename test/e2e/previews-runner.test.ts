/** Previews rendered by a separate process that has none of the server's data. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { attackInPlace, attackProgram } from "../support/attacks.ts";
import { patience } from "../support/patience.ts";
import { runnerToken, runnerVariables, useRunner } from "../support/preview-runner.ts";
import { aProject, aSpec } from "../support/project.ts";
import { usePullRequests } from "../support/pull-requests.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

const canary = `CANARY-${randomBytes(8).toString("hex")}`;

/** One deployment that follows `main` and is already deployed. */
async function useShop(world: TestWorld, extra: Record<string, string>) {
  const pulls = await usePullRequests(world, { TOWLINE_PREVIEW_ISOLATION: "auto", ...extra });
  const { namespace } = world.cluster;
  await pulls.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  return { pulls, namespace };
}

/** A port on which nothing listens. */
async function useFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

test("a runner renders a pull request, gets nothing of the server's, and keeps nothing", async () => {
  const world = await useWorld();
  const runner = await useRunner(world);
  const { pulls, namespace } = await useShop(world, runnerVariables(runner.port));
  const { towline } = pulls;

  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  expect(await pull.comment("merging changes")).toContain("blue");
  await expect.poll(() => pulls.statuses(pull.head), patience).toMatchObject({ towline: /success/ });

  expect(runner.lines).toContainEqual(
    expect.objectContaining({ msg: "preview rendered for a server", namespace, name: "shop" }),
  );

  const secret = join(world.dir, "secret-of-the-server");
  await writeFile(secret, canary);
  const listener = createServer((socket) => socket.end(canary)).listen(0, "127.0.0.1");
  onTestFinished(() => void listener.close());
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const pid = runner.child.pid ?? 0;
  const program = attackProgram({ files: { secret }, ports: { listener: port }, above: world.dir, pid });
  const hostile = await pulls.open(aProject({ namespace, data: { color: attackInPlace(program) } }));
  expect(await hostile.comment("merging changes")).toContain("got nothing with");

  const environment = await readFile(`/proc/${pid}/environ`, "latin1");
  for (const ours of [world.redis.prefix, pulls.gitea.login.token, runnerToken, world.cluster.kubeconfig]) {
    expect(environment).not.toContain(ours);
  }
  await expect.poll(() => readdir(join(runner.dataDir, "slots")), patience).toEqual([]);
  const ready = (await (await fetch(`${towline.adminUrl}/readyz`)).json()) as { checks: Record<string, unknown> };
  expect(ready.checks["previews"]).toMatchObject({
    isolation: {
      ...{ mode: "auto", runner: `127.0.0.1:${runner.port}` },
      provided: { files: "Landlock", credentials: expect.stringContaining("no login at the runner") as string },
    },
  });
  expect(await (await fetch(`${towline.adminUrl}/metrics`)).text()).toContain(
    'towline_preview_isolation{property="files"} 1',
  );
  runner.child.kill("SIGTERM");
  expect(await runner.ended).toBe(0);
});

test("if a runner is killed during a run, the next one renders the pull request", async () => {
  const world = await useWorld();
  const first = await useRunner(world);
  const { pulls, namespace } = await useShop(world, runnerVariables(first.port));
  const slow = `{% for i in range(30000000) %}{% endfor %}blue`;
  const pull = await pulls.open(aProject({ namespace, data: { color: slow } }));
  await expect.poll(() => readdir(join(first.dataDir, "slots")), patience).not.toEqual([]);

  first.child.kill("SIGKILL");
  await first.ended;
  await useRunner(world, { port: first.port });

  expect(await pull.comment("merging changes")).toContain("blue");
});

test("without a runner nothing is rendered, the comment says so, and a runner that starts later is used", async () => {
  const world = await useWorld();
  const port = await useFreePort();
  const { pulls, namespace } = await useShop(world, runnerVariables(port));
  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));

  const comment = await pull.comment("which does not respond");

  expect(comment).toContain(`previews are rendered by the preview runner 127.0.0.1:${port}, which does not respond`);
  const ready = await fetch(`${pulls.towline.adminUrl}/readyz`);
  expect(ready.status).toBe(200);
  expect(JSON.stringify(await ready.json())).toContain("which does not respond");
  await useRunner(world, { port });
  expect(await pull.comment("merging changes")).toContain("blue");
});

test("a runner with another token renders nothing", async () => {
  const world = await useWorld();
  const runner = await useRunner(world);
  const { pulls, namespace } = await useShop(world, runnerVariables(runner.port, "another-token-than-the-runner-has"));
  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));

  expect(await pull.comment("preview.runner.token")).toContain("rejects this server");

  expect(runner.lines.map(({ msg }) => msg)).toContain("connection rejected: wrong token");
  expect(await readdir(join(runner.dataDir, "slots")).catch(() => [])).toEqual([]);
});
