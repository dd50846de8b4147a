/**
 * Renders a project from its files alone, with the real kluctl in its jail: used for pull requests of untrusted
 * authors.
 */
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { NeedsMoreError, PreviewRefusedError } from "../../../src/errors.ts";
import type { KluctlDeps } from "../../../src/kluctl/kluctl.ts";
import { collectLogs, createProject, createShop, newKluctl, newRun } from "../../support/fake-kluctl.ts";
import { attackInPlace, attackProgram, attackTemplate, gotBy, readAttack } from "../../support/attacks.ts";
import { useKluctl, useTempDir } from "../../support/world.ts";

const signal = new AbortController().signal;

/** Unpacking Python takes seconds, so it is done once for all tests of this file. */
let cacheDir: string;
beforeAll(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  return () => rm(cacheDir, { recursive: true, force: true });
});

async function useOffline(options: Partial<Pick<KluctlDeps, "jail" | "confine" | "rendersUnconfined">> = {}) {
  const [binary, dir] = await Promise.all([useKluctl(), useTempDir()]);
  const opened: string[] = [];
  const env = { PATH: "/usr/bin:/bin", KLUCTL_GIT_PASSWORD: "CANARY-login", AWS_SECRET_ACCESS_KEY: "CANARY-cloud" };
  const kluctl = newKluctl(dir, {
    binary,
    log: collectLogs().log,
    cacheDir,
    env,
    kubeconfigFor: () => Promise.reject(new Error("nobody may have a kubeconfig")),
    confine: {
      open(run) {
        opened.push(run.deployment.name);
        return Promise.reject(new Error("nobody may have an access"));
      },
    },
    ...options,
  });
  onTestFinished(() => kluctl.stop());
  const slot = join(dir, "slot");
  await mkdir(slot);
  const render = (projectDir: string, more: Parameters<typeof newRun>[0] = {}, kubernetesVersion?: string) =>
    kluctl.render(newRun({ slot, projectDir, ...more }), { kubernetesVersion }, signal);
  return { dir, slot, clone: join(slot, "clone"), opened, render };
}

const configMap = (found: string) => `
apiVersion: v1
kind: ConfigMap
metadata: {name: found, namespace: shop}
data:
  found: >-
    ${found}
`;
const app = "deployments: [{path: app}]";

async function failureOf(rendering: Promise<unknown>): Promise<Error> {
  return rendering.then(
    () => Promise.reject(new Error("it was rendered")),
    (error: unknown) => error as Error,
  );
}

test("all objects of the shop are rendered, repeatably and without a kubeconfig", async () => {
  const { clone, render, opened } = await useOffline();
  const projectDir = await createShop(clone);
  const shop = { target: "staging", args: { environment: "t" } };

  const [one, again] = [await render(projectDir, shop), await render(projectDir, shop, "v1.30.1")];

  const texts = ({ objects }: typeof one) => objects.map(({ rendered }) => rendered).sort();
  expect(one.objects).toHaveLength(9);
  expect(texts(again)).toEqual(texts(one));
  expect(one.objects.map(({ ref }) => ref.kind)).toContain("Deployment");
  expect(one.errors).toEqual([]);
  expect(opened).toEqual([]);
});

test("a project without objects renders none", async () => {
  const { clone, render } = await useOffline();
  expect((await render(await createProject(clone, { "deployment.yaml": "deployments: []" }))).objects).toEqual([]);
});

test("a project that needs the cluster or the network fails, and the error says which", async () => {
  const { clone, render } = await useOffline();
  let hits = 0;
  const listener = createServer((socket) => (hits++, socket.end())).listen(0, "127.0.0.1");
  onTestFinished(() => void listener.close());
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const sources: [NeedsMoreError["needs"], string][] = [
    ["cluster", "clusterSecret: {name: login, namespace: shop, key: vars}"],
    ["cluster", "clusterConfigMap: {name: login, namespace: shop, key: vars}"],
    ["network", `http: {url: "http://127.0.0.1:${port}/"}`],
    ["network", `vault: {address: "http://127.0.0.1:${port}", path: secret/data/simple}`],
    ["network", `git: {url: "https://127.0.0.1:${port}/org/other.git", path: vars.yaml}`],
  ];
  for (const [at, [needs, source]] of sources.entries()) {
    const projectDir = await createProject(join(clone, String(at)), {
      "deployment.yaml": `vars: [{${source}}]\n${app}`,
      "app/found.yaml": configMap("nothing"),
    });
    const error = await failureOf(render(projectDir));
    expect([source, error.message, error instanceof NeedsMoreError ? error.needs : undefined]).toEqual([
      source,
      error.message,
      needs,
    ]);
  }
  expect(hits).toBe(0);
});

test("neither a template's code nor kluctl itself can reach files, sockets or variables", async () => {
  const { clone, dir, render } = await useOffline();
  const canary = join(dir, "canary.yaml");
  await writeFile(canary, "found: CANARY-file");
  const server = createServer((socket) => socket.end("CANARY-socket")).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const places = { files: { canary }, ports: { listener: port }, above: dir, pid: process.pid };
  const attacking = await createProject(clone, {
    "deployment.yaml": app,
    "app/found.yaml": configMap(attackTemplate(attackProgram(places))),
  });
  const { data } = JSON.parse((await render(attacking)).objects[0]?.rendered ?? "{}") as { data: { found: string } };
  const attacked = readAttack(data.found);
  expect(JSON.stringify(attacked.environment)).not.toContain("CANARY");
  expect(gotBy(attacked)).toEqual([]);

  for (const vars of [`file: ${canary}`, "file: ../../../canary.yaml"]) {
    const projectDir = await createProject(join(clone, "declares"), {
      "deployment.yaml": `vars: [{${vars}}]\n${app}`,
      "app/found.yaml": configMap("{{ found }}"),
    });
    expect((await failureOf(render(projectDir))).message).not.toContain("CANARY");
    await rm(projectDir, { recursive: true });
  }
  const asking = await createProject(join(clone, "asks"), {
    "deployment.yaml": `vars: [{systemEnvVars: {found: "KLUCTL_GIT_PASSWORD:nothing", more: "KUBECONFIG:nothing"}}]\n${app}`,
    "app/found.yaml": configMap("{{ found }}"),
  });
  expect((await render(asking)).objects[0]?.rendered).toContain("nothing");
});

test("rendering is refused if there is no jail, or if a part of it is missing", async () => {
  for (const options of [{ confine: undefined }, { jail: { files: false } }, { jail: { network: false } }]) {
    const { clone, render } = await useOffline(options as Parameters<typeof useOffline>[0]);
    const projectDir = await createProject(clone, { "deployment.yaml": app, "app/found.yaml": configMap("x") });
    const error = await failureOf(render(projectDir));
    expect(error).toBeInstanceOf(PreviewRefusedError);
    expect(error.message).toContain("only rendered in isolation");
  }
});

test("a user's own files are rendered without a jail, and without the cluster all the same", async () => {
  const { slot, render } = await useOffline({ confine: undefined, rendersUnconfined: true });
  const files = { "deployment.yaml": app, "app/found.yaml": configMap("{{ args.color }}") };
  const own = await createProject(join(slot, "own"), files);
  const { objects } = await render(own, { args: { color: "red" } });
  expect(objects.map(({ rendered = "" }) => (JSON.parse(rendered) as { data: object }).data)).toEqual([
    { found: "red" },
  ]);
  const vars = "vars: [{clusterConfigMap: {name: a, namespace: shop, key: b}}]\n";
  const needy = await createProject(join(slot, "needy"), { ...files, "deployment.yaml": `${vars}${app}` });
  await expect(render(needy)).rejects.toThrow(NeedsMoreError);
});

test("on a machine without network access, a kernel without port rules is sufficient, and sockets are still unavailable", async () => {
  let cutOff = true;
  const jail = { network: false, abi: 3, reachesNothing: () => cutOff };
  const { clone, render } = await useOffline({ jail });
  let hits = 0;
  const listener = createServer((socket) => (hits++, socket.end())).listen(0, "127.0.0.1");
  onTestFinished(() => void listener.close());
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const plain = await createProject(join(clone, "plain"), {
    "deployment.yaml": app,
    "app/found.yaml": configMap("something"),
  });
  const asking = await createProject(join(clone, "asking"), {
    "deployment.yaml": `vars: [{http: {url: "http://127.0.0.1:${port}/"}}]\n${app}`,
    "app/found.yaml": configMap("something"),
  });

  expect((await render(plain)).objects).toHaveLength(1);
  expect(await failureOf(render(asking))).toMatchObject({ needs: "network" });
  expect(hits).toBe(0);
  cutOff = false;
  expect(await failureOf(render(plain))).toBeInstanceOf(PreviewRefusedError);
});

// Documented in docs/preview-security.md: Landlock has no rule for it.
test("a template can find out whether a file exists, its size and a link's target, but not its content", async () => {
  const { clone, dir, render } = await useOffline();
  const canary = join(dir, "canary");
  await writeFile(canary, "CANARY-file");
  await symlink("somewhere", join(dir, "link"));
  const look = `
import os
told = [os.path.exists("${canary}"), os.path.exists("${canary}.other"), os.stat("${canary}").st_size, os.readlink("${dir}/link")]
try:
    environment = open("${canary}").read() or os.listdir("${dir}")
except OSError:
    environment = "nothing in it"
`;
  const projectDir = await createProject(clone, {
    "deployment.yaml": app,
    "app/found.yaml": configMap(attackInPlace(look)),
  });

  expect((await render(projectDir)).objects[0]?.rendered).toContain(
    "got [True, False, 11, 'somewhere'] with nothing in it",
  );
});

test("rendering more objects than the size limit allows is refused", async () => {
  const { clone, render } = await useOffline();
  const projectDir = await createProject(clone, {
    "deployment.yaml": app,
    "app/found.yaml": configMap(`{{ "x" * 17 * 1024 * 1024 }}`),
  });
  expect((await failureOf(render(projectDir))).message).toContain("more than 16 MiB");
});
