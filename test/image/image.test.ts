/** The built image with a read-only root and without capabilities, against a real API server. */
import { expect, test, vi } from "vitest";
import { freePort } from "../../dev/parts/port.ts";
import { docker, fileOf, image, runContainer, useContainer } from "../support/containers.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, sendPush } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

const kubeconfig = "/kubeconfig";

test("the image prints its versions, and contains no path that the server can write to", async () => {
  const config = JSON.parse(await docker("image", "inspect", "--format", "{{json .Config}}", image)) as object;
  expect(config).toMatchObject({
    User: "65532:0",
    Volumes: { "/tmp": {}, "/var/lib/towline": {}, "/var/cache/kluctl": {} },
    ExposedPorts: { "8080/tcp": {}, "9090/tcp": {} },
    Labels: { "org.opencontainers.image.title": "Towline" },
  });
  expect(JSON.parse(await runContainer({ command: ["version"] }))).toMatchObject({ version: expect.any(String) });

  const look = `
    id -u; id -g; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status
    for path in /app/x /x /usr/local/bin/x /var/cache/x; do touch $path 2>/dev/null && echo "can write $path"; done
    for path in /tmp /var/lib/towline /var/cache/kluctl; do touch $path/x || echo "cannot write $path"; done
    find / -xdev -type f -writable -not -path '/proc/*' 2>/dev/null
    find /app /usr/local/lib/towline ! -user 0
    for command in npm npx yarn corepack; do command -v $command; done
    echo end`;
  const said = await runContainer({ entrypoint: "sh", command: ["-c", look] });
  expect(said).toMatch(/^65532\n0\nCapEff:\s+0+\nNoNewPrivs:\s+1\nend$/);

  // The server and its sources depend on the versions of these programs.
  const versions = await runContainer({
    entrypoint: "sh",
    command: ["-c", "node --version; git --version; kluctl version --no-update-check; valkey-server --version; ssh -V"],
  });
  expect(versions).toMatch(
    /v2[4-9]\.\d+\.\d+[\s\S]*git version 2\.(4[5-9]|[5-9]\d)[\s\S]*\d+\.\d+\.\d+[\s\S]*Valkey server v=8/,
  );
});

test("the image deploys pushes, reports its health, reaps orphaned processes, and exits with 0", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  const first = await repo.push(aProject({ namespace }));
  const settings = settingsOf(world);
  const [webhooks, admin] = [await freePort(), 9090]; // the port of the image's own health check
  const server = await useContainer({
    env: { ...settings, TOWLINE_WEBHOOKS_PORT: String(webhooks), TOWLINE_ADMIN_PORT: String(admin) },
    reads: { [kubeconfig]: await fileOf(65532, world.cluster.kubeconfig) },
  });
  await server.becomesHealthy();
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.settles(first);
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });

  // Links to kluctl's Python in the image are where kluctl would have unpacked it.
  const links = await server.exec(
    "sh",
    "-c",
    "find /var/cache/kluctl/python /var/cache/kluctl/tmp -maxdepth 1 -type l",
  );
  expect(links).not.toBe("");
  await vi.waitFor(async () => expect(await server.logs()).toContain("kluctl's renderers are kept warm"), patience);

  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  const answer = await sendPush(`http://127.0.0.1:${webhooks}/webhooks/gitea`, { repo: repo.url, after: second });
  expect(answer.status).toBe(202);
  await deployment.settles(second);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });

  // An orphaned process becomes a child of tini, which reaps it.
  await server.exec("sh", "-c", "(sleep 0.2 & exec true) &");
  const left =
    "cat /proc/1/comm; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; grep -l '^sleep$' /proc/[0-9]*/comm; true";
  await vi.waitFor(async () => expect(await server.exec("sh", "-c", left)).toBe("tini"), patience);

  expect(await server.changes()).toBe("A /kubeconfig"); // the engine creates it as the mount point of the file
  expect(await server.stop()).toMatchObject({ Status: "exited", ExitCode: 0 });
});

test("the image replaces kluctl's controller, with another user and a queue of its own", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  const first = await repo.push(aProject({ namespace }));
  const controller = await useContainer({
    user: "1000:0",
    reads: { [kubeconfig]: await fileOf(1000, world.cluster.kubeconfig) },
    // The command in the Deployment of kluctl's controller.
    entrypoint: "kluctl",
    command: [
      ...["controller", "run", "--kubeconfig", kubeconfig, "--namespace", namespace],
      ...["--controller-namespace", namespace, "--metrics-bind-address", "0", "--source-override-bind-address", "0"],
    ],
  });
  await controller.becomesHealthy();
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.settles(first);
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect(await controller.logs()).toContain("private Redis started");
  expect(await controller.stop()).toMatchObject({ Status: "exited", ExitCode: 0 });
});

test("the image's kluctl works without the server", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const said = await runContainer({
    env: { KUBECONFIG: kubeconfig },
    reads: { [kubeconfig]: await fileOf(65532, world.cluster.kubeconfig) },
    entrypoint: "bash",
    command: [
      "-euc",
      `git clone -q ${repo.url} /tmp/shop; kluctl deploy --yes --no-update-check --no-color --project-dir /tmp/shop -t prod`,
    ],
  });
  expect(said).toContain("settings");
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
});

/** Settings for which the image has no default. */
function settingsOf(world: TestWorld): Record<string, string> {
  const settings: Record<string, string> = { ...environment(world), TOWLINE_LOG_FORMAT: "json" };
  for (const name of ["TOWLINE_KLUCTL", "TOWLINE_KLUCTL_CACHE_DIR", "TOWLINE_DATA_DIR"]) delete settings[name];
  return { ...settings, TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig };
}
