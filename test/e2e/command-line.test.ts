/** The command line, with a real server that has work to do. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { towline as commandLine } from "../support/command-line.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, sendPush, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("trace reports commits, manual requests are carried out, and a working copy is previewed", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  const server = await useTowline(world);
  const env = { ...environment(world), PATH: process.env["PATH"] };
  const towline = (...argv: string[]) => commandLine(argv, { env });
  const name = `${namespace}/shop`;

  const project = { namespace };
  const first = await repo.push(aProject(project));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const second = await repo.push(aProject({ ...project, data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: second })).status).toBe(202);
  await vi.waitFor(async () => expect((await towline("trace", second)).out).toContain("healthy"), patience);

  const traced = await towline("trace", second.slice(0, 10));
  expect(traced).toMatchObject({ code: 0, err: "" });
  expect(traced.out).toContain(`${name}: applied\n`);
  expect(traced.out).toMatch(
    /received +by forge gitea, response 202\n.*queued\n.*rendered\n.*applied +1 changed\n.*healthy/,
  );
  const before = await towline("trace", first);
  expect(before.out).toContain(`superseded by ${second.slice(0, 7)}`);
  expect(before.code).toBe(0);

  // No webhook reports this commit: reconcile finds it.
  const third = await repo.push({ "README.md": "Nothing that is rendered" });
  const asked = await towline("reconcile", name);
  expect(asked).toMatchObject({
    code: 0,
    out: `${name}: ready at ${third.slice(0, 7)}. deploy succeeded. 1 changed objects.\n`,
  });
  const unchanged = await towline("trace", third);
  expect(unchanged.out).toContain(`rendered objects unchanged since ${second.slice(0, 7)}`);
  expect(unchanged.code).toBe(0);

  // The fifth commit exists before the fourth is checked.
  const fourth = await repo.push({ "README.md": "Soon overtaken" });
  const fifth = await repo.push({ "README.md": "Something newer" });
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: fourth })).status).toBe(202);
  const overtaken = async () => (await towline("trace", fourth)).out;
  await vi.waitFor(async () => expect(await overtaken()).toContain(`${name}: superseded\n`), patience);
  expect(await overtaken()).toContain(`superseded by ${fifth.slice(0, 7)}`);

  expect(await towline("suspend", name)).toMatchObject({ code: 0 });
  expect((await towline("get", "deployments", "-n", namespace)).out).toMatch(
    /shop +True +\S+ +none +\d+s +suspended\n/,
  );
  const refused = await fetch(server.webhooksUrl, { method: "POST", body: "{}" });
  expect(refused.status).toBe(401);
  await vi.waitFor(async () => {
    const { out } = await towline("get", "deliveries");
    expect(out).toMatch(new RegExp(`gitea +202 +push +test/repo main +${second.slice(0, 7)} +1 +1 +${name}\n`));
    expect(out).toMatch(/gitea +401 .*X-Gitea-Signature is missing/);
  }, patience);

  await writeFile(join(repo.dir, "app", "settings.yml"), settings(namespace, "green"));
  const preview = await towline("preview", repo.dir, "--into", "main", "-n", namespace, "-o", "markdown");
  expect(preview.out).toContain("### Towline: merging would change 1 suspended deployment: 1 object changed");
  expect(preview.out).toContain("-  blue\n+  green");
  expect(preview.code).toBe(0);
  const asText = await towline("preview", repo.dir, "--into", "main", "-n", namespace);
  expect(asText.out).toMatch(/^Merging would change 1 suspended deployment: 1 object changed\n/);
  expect(asText.out).toContain("    -  blue\n    +  green\n");
  expect(await repo.git("status", "--porcelain")).toBe("M app/settings.yml");

  // A deployment that the project contains, with the same project.
  const kind = { apiVersion: "gitops.kluctl.io/v1beta1", kind: "KluctlDeployment" };
  const child = { ...kind, metadata: { name: "child", namespace }, spec: aSpec(repo.url) };
  await writeFile(join(repo.dir, "app", "child.yml"), JSON.stringify(child));
  await repo.git("add", "app/child.yml");
  const nested = await towline("preview", repo.dir, "--into", "main", "-n", namespace);
  expect(nested.out).toContain("Child deployments, rendered without the cluster: 1 new\n");
  expect(nested.out).toContain(`new ${namespace}/child in ${name}: 2 new\n`);
  expect(nested.out).toContain("It changes 1 KluctlDeployment in turn");
  await repo.git("rm", "--quiet", "--force", "app/child.yml");

  await repo.git("commit", "--all", "--message", "Green");
  await repo.git("push", "--quiet", "origin", "HEAD:other");
  await repo.git("reset", "--quiet", "--hard", "HEAD~1");
  await repo.push(aProject({ ...project, data: { color: "black" } }));
  await repo.git("checkout", "--quiet", "--detach", "origin/other");
  const conflict = await towline("preview", repo.dir, "--into", "main", "-n", namespace, "-o", "markdown");
  expect(conflict.out).toContain("### Towline: cannot be merged into `main`");
  expect(conflict.out).toContain("app/settings.yml");
  expect(conflict.code).toBe(1);
  expect((await towline("preview", repo.dir, "--into", "nowhere")).err).toContain("no branch nowhere at origin");
});

function settings(namespace: string, color: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "settings", namespace },
    data: { color },
  });
}
