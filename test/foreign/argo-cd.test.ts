/**
 * The migration guide for Argo CD, with the real `argocd` and a real Argo CD: server, controller and repository server.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { freePort } from "../../dev/parts/port.ts";
import { startRedis } from "../../dev/parts/redis.ts";
import { findTools } from "../../dev/tools.ts";
import { documentedBlocks } from "../support/documented-commands.ts";
import { becomes, type ForeignDesk, runDocumented, useForeignDesk } from "../support/foreign-desk.ts";
import { patience } from "../support/patience.ts";
import { useGitServer } from "../support/world.ts";

const page = "docs/migrate-from-argo-cd.md";
const application = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop";
const settings = "/api/v1/namespaces/shop/configmaps/settings";

const configMap = (color: string) =>
  stringify({
    ...{ apiVersion: "v1", kind: "ConfigMap" },
    ...{ metadata: { name: "settings", namespace: "shop" }, data: { color } },
  });

test("the guide for Argo CD: each command does what the page says, and no object is deleted", async () => {
  const port = await freePort();
  // The options that users have configured after a login.
  const desk = await useForeignDesk(["argocd"], { ARGOCD_OPTS: `--server 127.0.0.1:${port} --plaintext` });
  await startArgoCd(desk, port);
  const repo = await (await useGitServer()).repo("shop");
  const push = (color: string) => repo.push({ "base/settings.yaml": configMap(color) });
  await push("red");
  await desk.type("kubectl create namespace shop");
  await desk.apply(anApplication(repo.url, desk.server));
  const color = async () => (await desk.find(settings))?.data?.["color"];
  await becomes(color, "red");
  const project = join(desk.dir, "project");
  await mkdir(join(project, "base"), { recursive: true });
  await writeFile(join(project, ".kluctl.yaml"), "discriminator: shop\ntargets: [{ name: staging }]\n");
  await writeFile(join(project, "deployment.yaml"), "deployments: [{ path: base }]\n");
  await writeFile(join(project, "base/settings.yaml"), configMap("red"));
  const [compare, takeOff, mark] = documentedBlocks().filter(({ file }) => file === page);
  const commands = takeOff?.text.split("\n") ?? [];
  const spec = async () => (await desk.find(application))?.spec;
  const automated = (wanted: object | null) =>
    desk.client.request({ method: "PATCH", path: application, body: { spec: { syncPolicy: { automated: wanted } } } });

  await runDocumented("argocd", {
    async "argocd app list"(command) {
      expect(await desk.type(command)).toMatch(/^argocd\/shop +https:\S+ +shop +default +Synced +Healthy +Auto-Prune/m);
    },
    async "argocd app get NAME"(command) {
      expect(await desk.type(command.replace("NAME", "shop"))).toMatch(/Sync Status: +Synced/);
    },
    async "argocd app sync NAME"(command) {
      await automated(null); // so that Argo CD does not sync in the meantime
      await push("blue");
      await desk.type(command.replace("NAME", "shop"));
      await becomes(color, "blue");
    },
    async "argocd app diff NAME --local ."(command) {
      // It exits with 1 if there are differences, and reflects the controller's state with a short delay.
      const diff = `${command.replace("NAME", "shop")} || echo $?`;
      const said = () => desk.type(diff, { cwd: join(project, "base") });
      await expect.poll(said, patience).toMatch(/^< +color: blue[^]*^> +color: red[^]*^1$/m);
      await push("red");
      await desk.type("argocd app sync shop");
      await becomes(color, "red");
      await automated({ prune: true, selfHeal: true });
    },
    async "argocd app set shop --sync-policy none"(command) {
      const said = await desk.type(`${compare?.text} 2>&1`, { cwd: project });
      const paths = said.split("\n").flatMap((line) => /^\| ((?:metadata|data|spec)\S*)/.exec(line)?.[1] ?? []);
      expect(paths.length, said).toBeGreaterThan(0);
      expect(paths.filter((path) => !/^metadata\.(labels|annotations)\["kluctl\.io\//.test(path))).toEqual([]);

      expect(commands[0]).toBe(command);
      expect(await spec()).toMatchObject({ syncPolicy: { automated: { prune: true } } });
      await desk.type(command);
      expect((await spec())?.["syncPolicy"] ?? {}).not.toHaveProperty("automated");
    },
    async "argocd app delete shop --cascade=false"(command) {
      const [, patch = "", last] = commands;
      expect([patch, last]).toEqual([expect.stringMatching(/^kubectl -n argocd patch/), command]);
      await desk.type(patch);
      await desk.type(command);
      await becomes(() => desk.find(application), undefined);
      expect(await color()).toBe("red");
    },
  });

  await desk.type("kluctl deploy -t staging --yes", { cwd: project });
  const annotations = async () => Object.keys((await desk.find(settings))?.metadata.annotations ?? {});
  expect(await annotations(), "Argo CD's mark stays, as the page says").toEqual(
    expect.arrayContaining(["argocd.argoproj.io/tracking-id", "kluctl.io/deployment-item-dir"]),
  );
  await desk.type(mark?.text ?? "");
  expect(await annotations()).not.toContain("argocd.argoproj.io/tracking-id");
  expect(await color()).toBe("red");
});

function anApplication(repoURL: string, server: string): object {
  const finalizers = ["resources-finalizer.argocd.argoproj.io"];
  return {
    ...{ apiVersion: "argoproj.io/v1alpha1", kind: "Application" },
    metadata: { name: "shop", namespace: "argocd", finalizers },
    spec: {
      project: "default",
      source: { repoURL, path: "base", targetRevision: "main" },
      destination: { server, namespace: "shop" },
      syncPolicy: { automated: { prune: true, selfHeal: true } },
    },
  };
}

/** Starts the components of Argo CD: one program whose name decides which component it is. */
async function startArgoCd(desk: ForeignDesk, port: number): Promise<void> {
  const program = desk.tools["argocd"] ?? "";
  const home = dirname(program);
  const tools = await findTools(["redis-server"], { say: () => undefined });
  const redis = await startRedis({ tools, stateDir: desk.dir });
  onTestFinished(() => redis.stop());
  for (const kind of ["application", "applicationset", "appproject"])
    await desk.define(join(home, `manifests/crds/${kind}-crd.yaml`));
  await desk.type("kubectl create namespace argocd");
  const part = { "app.kubernetes.io/part-of": "argocd" };
  const own = (name: string, labels: Record<string, string> = part) => ({ name, namespace: "argocd", labels });
  await desk.apply(
    { apiVersion: "v1", kind: "ConfigMap", metadata: own("argocd-cm") },
    { apiVersion: "v1", kind: "ConfigMap", metadata: own("argocd-rbac-cm") },
    {
      ...{ apiVersion: "v1", kind: "Secret", metadata: own("argocd-secret") },
      stringData: { "server.secretkey": "0123456789abcdef0123456789abcdef" },
    },
    {
      ...{ apiVersion: "v1", kind: "Secret" },
      metadata: own("cluster", { "argocd.argoproj.io/secret-type": "cluster" }),
      stringData: { name: "here", server: desk.server, config: JSON.stringify(loginOf(desk)) },
    },
    {
      ...{ apiVersion: "argoproj.io/v1alpha1", kind: "AppProject", metadata: own("default", {}) },
      spec: {
        sourceRepos: ["*"],
        destinations: [{ namespace: "*", server: "*" }],
        clusterResourceWhitelist: [{ group: "*", kind: "*" }],
      },
    },
  );
  // The repository server runs it by this name.
  await desk.program("git-verify-wrapper.sh", `exec sh ${join(home, "hack/git-verify-wrapper.sh")} "$@"`);

  const [repoPort, ...metrics] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const temp = join(desk.dir, "tmp");
  await mkdir(temp);
  const start = (name: string, args: readonly string[]) => {
    const env = { ARGOCD_BINARY_NAME: name, ARGOCD_GPG_ENABLED: "false", TMPDIR: temp };
    return desk.start(name, program, [...args, `--redis=${new URL(redis.url).host}`], env);
  };
  // It removes the permissions from its checkouts, which must still be deletable.
  onTestFinished(async () => void (await desk.type(`chmod --recursive u+rwX ${temp}`)));
  await start("argocd-repo-server", [
    ...["--address=127.0.0.1", `--port=${repoPort}`, "--metrics-address=127.0.0.1", `--metrics-port=${metrics[0]}`],
    ...["--disable-tls", "--client-ca-path="],
  ]);
  const common = [`--kubeconfig=${desk.kubeconfig}`, "--namespace=argocd", "--repo-server-plaintext"];
  common.push(`--repo-server=127.0.0.1:${repoPort}`);
  // `argocd app sync` waits for the refresh after the sync, which may be the next regular one: up to two minutes.
  const often = ["--app-resync=5", "--app-resync-jitter=0"];
  await start("argocd-application-controller", [...common, ...often, `--metrics-port=${metrics[1]}`]);
  await start("argocd-server", [
    ...[...common, "--address=127.0.0.1", `--port=${port}`, "--insecure", "--disable-auth"],
    ...["--metrics-address=127.0.0.1", `--metrics-port=${metrics[2]}`],
  ]);
  const healthy = () => fetch(`http://127.0.0.1:${port}/healthz`).then(({ ok }) => ok, () => false); // prettier-ignore
  await becomes(healthy, true);
}

/** The administrator's login, in the format in which Argo CD stores logins of clusters. */
function loginOf({ kubeconfig }: ForeignDesk): object {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()];
  return { tlsClientConfig: { caData: cluster?.caData, certData: user?.certData, keyData: user?.keyData } };
}
