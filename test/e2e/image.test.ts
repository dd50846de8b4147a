/**
 * The image, as far as it can be tested without a container engine: the Dockerfile's steps run on this machine's own
 * system, and the server runs from exactly what they produce, as an unprivileged user, with only the documented
 * directories writable. Debian packages and kluctl are taken from this machine.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test, vi } from "vitest";
import { parseDockerfile } from "../../dev/image/dockerfile.ts";
import { type ContainerOptions, createContext, follow, type Followed } from "../../dev/image/follow.ts";
import { createLocalBase } from "../../dev/image/local.ts";
import { freePort } from "../../dev/parts/port.ts";
import { findRenderer } from "../support/flux-renderer.ts";
import { useOtlpReceiver } from "../support/otlp-receiver.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, type LogLine, sendPush } from "../support/towline.ts";
import { patience } from "../support/patience.ts";
import { useTempDir, useWorld } from "../support/world.ts";

const root = join(import.meta.dirname, "../..");

/** Mounting is not permitted in the container of a build service, for example. */
const mayMount =
  spawnSync("unshare", ["--mount", "--propagation=private", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]).status === 0;

/**
 * `apt-get` records its arguments and installs nothing; programs that this machine may lack are replaced by minimal
 * ones.
 */
const standIns: Record<string, string> = {
  "usr/bin/apt-get": '#!/bin/sh\necho "$@" >> /asked-of-apt\n',
  ...(!existsSync("/usr/bin/tini") && { "usr/bin/tini": '#!/bin/sh\nshift\nexec "$@"\n' }),
};

async function useImage(kluctl: string): Promise<Followed> {
  const dir = await useTempDir();
  const workDir = join(dir, "work");
  await mkdir(workDir);
  const [local, text] = await Promise.all([
    createLocalBase({ dir: join(dir, "base"), kluctl, fluxRenderer: await findRenderer(), standIns }),
    readFile(join(root, "Dockerfile"), "utf8"),
    createContext(root, join(dir, "context")),
  ]);
  const image = await follow({
    ...local,
    dockerfile: parseDockerfile(text),
    context: join(dir, "context"),
    base: "/",
    workDir,
    hidden: ["/tmp", "/root", "/home", "/work", "/srv"].filter((path) => existsSync(path)),
  });
  onTestFinished(() => image.end());
  return image;
}

function useContainer(image: Followed, options: ContainerOptions) {
  const [command, ...args] = image.toContainer(options);
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "close").then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  const said: string[] = [];
  const lines: LogLine[] = [];
  createInterface(child.stderr).on("line", (line) => said.push(line));
  createInterface(child.stdout).on("line", (line) => {
    said.push(line);
    if (line.startsWith("{")) lines.push(JSON.parse(line) as LogLine);
  });
  const stop = async () => {
    child.kill("SIGTERM");
    return ended;
  };
  onTestFinished(async () => void (await stop()));
  return {
    lines,
    said,
    ended,
    stop,
    /** A path inside the container, as this process sees it. */
    path: (path: string) => `/proc/${child.pid}/root${path}`,
  };
}

async function runIn(image: Followed, ...command: string[]) {
  const { ended, said } = useContainer(image, { entrypoint: command, cmd: [] });
  return { code: await ended, said: said.join("\n") };
}

const patient = 300_000;

test.skipIf(!mayMount)(
  "the image deploys, as an unprivileged user on a read-only root",
  { timeout: patient },
  async () => {
    const world = await useWorld();
    const { namespace } = world.cluster;
    const [image, repo] = await Promise.all([useImage(world.kluctl), world.repo("shop")]);
    const first = await repo.push(aProject({ namespace }));

    // The content of the image: only what is needed at runtime, and nothing that the server could write.
    const asked = await readFile(image.hostPath("/asked-of-apt"), "utf8");
    expect(asked.match(/^install .*valkey-server$/m)?.[0].split(" ")).toEqual(
      expect.arrayContaining(["--no-install-recommends", "ca-certificates", "git", "gpg", "openssh-client", "tini"]),
    );
    const modules = await readdir(image.hostPath("/app/node_modules"));
    expect(modules).toContain("bullmq");
    for (const unwanted of ["typescript", "vitest", "prettier", "vite", "preact"])
      expect(modules).not.toContain(unwanted);
    expect(existsSync(image.hostPath("/usr/local/bin/npm"))).toBe(false);
    const own = "/app /usr/local/lib/towline";
    const { said: writable } = await runIn(image, "sh", "-c", `find ${own} ! -type l -writable; find ${own} ! -user 0`);
    expect(writable).toBe("");
    expect((await runIn(image, "sh", "-c", "id -u; id -g; grep CapEff /proc/self/status; touch /app/x")).said).toMatch(
      /^65532\n0\nCapEff:\s+0+\n.*Read-only file system$/,
    );
    expect((await runIn(image, "towline", "version")).code).toBe(0);
    expect((await runIn(image, "towline-flux", "--version")).said).toMatch(
      /^towline-flux for kustomize-controller 1\./,
    );

    const collector = await useOtlpReceiver();
    // The server. Its first run of kluctl finds the image's Python; the later ones use warm renderers.
    const adminPort = String(await freePort());
    const settings: Record<string, string> = {
      ...environment(world),
      TOWLINE_LOG_FORMAT: "json",
      TOWLINE_ADMIN_PORT: adminPort,
      TOWLINE_PAGE_PORT: "0",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      TOWLINE_PAGE_TOKEN: "the-token-of-this-page-123",
    };
    for (const name of ["TOWLINE_KLUCTL", "TOWLINE_KLUCTL_CACHE_DIR", "TOWLINE_DATA_DIR"]) delete settings[name];
    const kubeconfig = "/tmp/kubeconfig";
    const files = { [kubeconfig]: world.cluster.kubeconfig };
    const server = useContainer(image, { env: { ...settings, TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig }, files });
    const admin = `http://127.0.0.1:${adminPort}`;
    await vi
      .waitFor(async () => expect((await fetch(`${admin}/readyz`)).status).toBe(200), patience)
      .catch((error) => {
        throw new Error(server.said.join("\n"), { cause: error });
      });
    const healthcheck = useContainer(image, {
      env: { TOWLINE_ADMIN_PORT: adminPort },
      entrypoint: image.image.healthcheck,
      cmd: [],
    });
    const deployment = world.cluster.deployment("shop");
    await deployment.create(aSpec(repo.url));
    await deployment.settles(first);
    expect(await world.cluster.data("settings")).toEqual({ color: "red" });
    expect(await healthcheck.ended).toBe(0);

    const unpacked = await Promise.all(
      ["python", "tmp"].map(async (place) => {
        const names = await readdir(image.hostPath(`/usr/local/lib/towline/unpacked/${place}`));
        return Promise.all(names.map((name) => lstat(server.path(`/var/cache/kluctl/${place}/${name}`))));
      }),
    );
    expect(unpacked.flat().length).toBeGreaterThan(0);
    expect(unpacked.flat().every((entry) => entry.isSymbolicLink())).toBe(true); // kluctl would have unpacked real files
    const messages = () => server.lines.map(({ msg }) => msg);
    await vi.waitFor(() => expect(messages()).toContain("kluctl's renderers are kept warm"), patience);

    const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
    const listening = server.lines.find(({ msg }) => msg === "listening");
    const [port, page] = [listening?.["webhooks"], listening?.["page"]];
    const html = await (await fetch(`http://127.0.0.1:${String(page)}/`)).text();
    const [asset = ""] = /\/assets\/[\w-]+\.js/.exec(html) ?? [];
    expect((await fetch(`http://127.0.0.1:${String(page)}${asset}`)).headers.get("content-type")).toContain(
      "javascript",
    );
    const answer = await sendPush(`http://127.0.0.1:${String(port)}/webhooks/gitea`, { repo: repo.url, after: second });
    expect(answer.status).toBe(202);
    await deployment.settles(second);
    expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
    const metrics = await (await fetch(`${admin}/metrics`)).text();
    expect(metrics).toMatch(/^towline_kluctl_renderers_total\{start="warm"\} [1-9]/m);
    expect(await server.stop()).toBe(0);
    // OpenTelemetry's SDK is in the image, and pending spans are sent when the server stops.
    const spans = collector.spans.map(({ name }) => name);
    expect(spans).toEqual(expect.arrayContaining(["receive", "reconcile", "deploy"]));

    // As a replacement of kluctl's controller, with the command of its Deployment, and with the user of compose: a
    // different user, in group 0.
    const healthPort = await freePort();

    const controller = useContainer(image, {
      user: "1000:0",
      files,
      entrypoint: ["tini", "--", "kluctl"],
      cmd: [
        ...["controller", "run", "--kubeconfig", kubeconfig, "--namespace", namespace],
        ...["--controller-namespace", namespace, "--metrics-bind-address", "0", "--source-override-bind-address", "0"],
        ...["--health-probe-bind-address", `127.0.0.1:${healthPort}`],
      ],
    });
    const third = await repo.push(aProject({ namespace, data: { color: "green" } }));
    await deployment.patch({
      metadata: { annotations: { "kluctl.io/request-reconcile": new Date().toISOString() } } as object,
    });
    await deployment.settles(third).catch((error) => {
      throw new Error(controller.said.join("\n"), { cause: error });
    });
    expect(await world.cluster.data("settings")).toEqual({ color: "green" });
    expect(controller.said.join("\n")).toContain("private Redis started");
    const health = await fetch(`http://127.0.0.1:${healthPort}/readyz`);
    expect(health.status).toBe(200);
    expect(await controller.stop()).toBe(0);
  },
);
