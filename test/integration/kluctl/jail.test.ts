import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { KluctlDeps } from "../../../src/kluctl/kluctl.ts";
import type { CommandResult } from "../../../src/model.ts";
import { collectLogs, createProject, createShop, newKluctl, newRun, noDiffOptions } from "../../support/fake-kluctl.ts";
import { attackProgram, attackTemplate } from "../../support/attacks.ts";
import { uniqueName, useCluster, useKluctl, useTempDir } from "../../support/world.ts";

const signal = new AbortController().signal;

/** Unpacking Python takes seconds: once for all tests of this file. */
let cacheDir: string;
beforeAll(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  return () => rm(cacheDir, { recursive: true, force: true });
});

/**
 * The same kluctl twice: as deploys use it, and as previews do, whose access is the cluster itself, with nothing between
 * them. With `systemPython` the renderers are copies of a fork server, else each starts cold.
 */
async function useJail(options: Partial<Pick<KluctlDeps, "systemPython" | "jail" | "limits">> = {}) {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const port = Number(new URL(/https?:[^"\s]+/.exec(kubeconfig)?.[0] ?? "").port);
  const { log, lines } = collectLogs();
  const env = { PATH: "/usr/bin:/bin", KLUCTL_GIT_PASSWORD: "CANARY-login", AWS_SECRET_ACCESS_KEY: "CANARY-cloud" };
  const confine = {
    open: () => Promise.resolve({ kubeconfig, env: {}, ports: [port], close: () => Promise.resolve() }),
  };
  const shared = { binary, log, kubeconfigFor: () => kubeconfig, cacheDir, env };
  const open = newKluctl(dir, shared);
  const jailed = newKluctl(dir, { ...shared, ...options, confine });
  onTestFinished(async () => void (await Promise.all([open.stop(), jailed.stop()])));
  const slot = join(dir, "slot");
  await mkdir(slot);
  return {
    cluster,
    dir,
    lines,
    slot,
    /** Of the project that lies in the slot. */
    run: (more: Parameters<typeof newRun>[0]) => newRun({ cold: true, slot, ...more }),
    open,
    jailed,
  };
}

const canConfineItself = { systemPython: true };

/** What became of each object's data. */
function data(result: CommandResult): Record<string, string> {
  const found = result.objects.map(({ rendered = "{}" }) => (JSON.parse(rendered) as { data?: object }).data);
  return Object.assign({}, ...found) as Record<string, string>;
}

const configMap = (namespace: string, found: string) => `
apiVersion: v1
kind: ConfigMap
metadata: {name: found, namespace: ${namespace}}
data:
  found: >-
    ${found}
`;

describe.each([
  ["cold", {}],
  ["from the fork server", canConfineItself],
] as const)("renderers %s", (how, options) => {
  test("the shop renders in a jail what it renders outside of one", async () => {
    const { open, jailed, run, slot } = await useJail(options);
    const projectDir = await createShop(join(slot, "clone"));
    const shop = run({ projectDir, target: "staging", args: { environment: uniqueName("t") } });

    const outside = await open.diff(shop, noDiffOptions, signal);
    const inside = await jailed.diff(shop, noDiffOptions, signal);

    expect(inside.errors).toEqual([]);
    expect(inside.objects).toHaveLength(9);
    // kluctl lists them in another order each time.
    const texts = ({ objects }: CommandResult) => objects.map(({ rendered }) => rendered).sort();
    expect(texts(inside)).toEqual(texts(outside));
    expect(inside.objectsHash).toBe(outside.objectsHash);
  });

  test("a template's code finds no environment, no file, no process and no socket", async () => {
    const { jailed, run, slot, dir, cluster, lines } = await useJail(options);
    const canary = join(dir, "canary");
    await writeFile(canary, "CANARY-file");
    const server = createServer((socket) => socket.end("CANARY-socket")).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const clone = join(slot, "clone");
    const attack = attackProgram({ canary, above: dir, clone, pid: process.pid, port });
    const projectDir = await createProject(clone, {
      "deployment.yaml": "deployments: [{path: app}]",
      "app/found.yaml": configMap(cluster.namespace, `${attackTemplate(join(clone, "attack.py"))}`),
      "attack.py": attack,
    });
    await symlink(canary, join(projectDir, "link"));

    const result = await jailed.diff(run({ projectDir }), noDiffOptions, signal);
    const found = JSON.parse(Buffer.from(data(result)["found"] ?? "", "base64").toString()) as Record<string, string>;

    const { environment, python, ...others } = found;
    expect(environment).not.toContain("CANARY");
    expect(
      Object.keys(JSON.parse(environment ?? "{}") as object).filter((name) => !/^(PYTHON|LC_|LANG|TZ)/.test(name)),
    ).toEqual([]);
    expect(python?.includes("fork-server")).toBe(how !== "cold");
    expect(Object.entries(others).filter(([, answer]) => answer !== "refused")).toEqual([]);
    expect(Object.keys(others).length).toBeGreaterThan(50);
    expect(lines.filter(({ msg }) => String(msg).includes("start cold"))).toHaveLength(how === "cold" ? 1 : 0);
  });
});
