/** A Kubernetes control plane without machines: etcd, API server, controllers, scheduler, and kwok as the kubelet. */
import { request } from "node:https";
import { join } from "node:path";
import { packageRoot } from "../package-root.ts";
import type { ToolPaths } from "../tools.ts";
import { type ControlPlaneFiles, writeControlPlaneFiles } from "./control-plane-files.ts";
import { freePort } from "./port.ts";
import { type RunningProcess, startProcess } from "./process.ts";

export interface ControlPlaneOptions {
  readonly tools: ToolPaths<(typeof controlPlaneTools)[number]>;
  readonly stateDir: string;
}

export interface ControlPlane {
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly server: string;
  stop(): Promise<void>;
}

export const controlPlaneTools = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kwok",
] as const;

export const apiServerTools = ["etcd", "kube-apiserver"] as const;

/** Starts only an API server: objects can be stored, but no controller acts on them. */
export async function startApiServer({
  tools,
  stateDir,
  args = [],
}: {
  readonly tools: ToolPaths<(typeof apiServerTools)[number]>;
  readonly stateDir: string;
  readonly args?: readonly string[];
}): Promise<ControlPlane> {
  const parts = await startParts(tools, stateDir, () => args);
  return { kubeconfig: parts.files.kubeconfig, server: parts.server, stop: parts.stop };
}

/** Resolves when the API server is ready and a node accepts pods. */
export async function startControlPlane({ tools, stateDir }: ControlPlaneOptions): Promise<ControlPlane> {
  const { server, files, start, stop } = await startParts(tools, stateDir);
  try {
    const kubeconfig = `--kubeconfig=${files.kubeconfig}`;
    const [, , kwok] = await Promise.all([
      start("kube-controller-manager", tools["kube-controller-manager"], [kubeconfig, ...controllerManagerArgs(files)]),
      start("kube-scheduler", tools["kube-scheduler"], [kubeconfig, "--leader-elect=false", "--secure-port=0"]),
      start("kwok", tools.kwok, [kubeconfig, ...kwokArgs]),
      createNode(server, files),
    ]);
    await kwok.ready(() => takesPods(server, files));
  } catch (error) {
    await stop();
    throw error;
  }
  return { kubeconfig: files.kubeconfig, server, stop };
}

/**
 * Starts etcd and the API server and waits until they are ready; also returns functions that start further processes
 * and stop all of them together. If an argument is given twice, the API server uses the later one.
 */
export async function startParts(
  tools: ToolPaths<(typeof apiServerTools)[number]>,
  stateDir: string,
  moreApiServerArgs: (files: ControlPlaneFiles) => readonly string[] = () => [],
) {
  const dir = join(stateDir, "control-plane");
  const [etcdPort, peerPort, apiPort] = [await freePort(), await freePort(), await freePort()];
  const server = `https://127.0.0.1:${apiPort}`;
  const files = await writeControlPlaneFiles(dir, server);
  const running: RunningProcess[] = [];
  const start = async (name: string, command: string, args: string[], more: NodeJS.ProcessEnv = {}) => {
    const logFile = join(stateDir, "logs", `${name}.log`);
    // With Go's default, an eighth of their time goes to garbage collection; they are small, and share few cores with
    // tests.
    const env = { ...process.env, GOGC: process.env["GOGC"] ?? "400", ...more };
    const started = await startProcess({ name, command, args, logFile, env, cwd: dir });
    running.push(started);
    return started;
  };
  // Their data is discarded, so they need not shut down gracefully.
  const stop = async () => void (await Promise.all(running.map((one) => one.stop(500))));

  try {
    const etcdUrl = `http://127.0.0.1:${etcdPort}`;
    await start("etcd", tools.etcd, etcdArgs(join(dir, "etcd"), etcdUrl, `http://127.0.0.1:${peerPort}`));
    const apiServer = await start("kube-apiserver", tools["kube-apiserver"], [
      ...apiServerArgs(files, dir, etcdUrl, apiPort),
      ...moreApiServerArgs(files),
    ]);
    await apiServer.ready(async () => (await call(server, files, "GET", "/readyz")).status === 200);
  } catch (error) {
    await stop();
    throw error;
  }
  return { server, files, start, stop };
}

function etcdArgs(dataDir: string, clientUrl: string, peerUrl: string): string[] {
  return [
    `--data-dir=${dataDir}`,
    `--listen-client-urls=${clientUrl}`,
    `--advertise-client-urls=${clientUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=default=${peerUrl}`,
    "--unsafe-no-fsync", // the data is discarded with the run
    "--log-level=warn",
  ];
}

function apiServerArgs(files: ControlPlaneFiles, dir: string, etcdUrl: string, port: number): string[] {
  return [
    `--etcd-servers=${etcdUrl}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${port}`,
    `--tls-cert-file=${files.serverCert}`,
    `--tls-private-key-file=${files.serverKey}`,
    `--client-ca-file=${files.ca}`,
    `--cert-dir=${dir}`,
    `--service-account-key-file=${files.serviceAccountPublicKey}`,
    `--service-account-signing-key-file=${files.serviceAccountKey}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    // The measurements create many Services in succession: a /24 with 254 addresses was too small for all of them.
    "--service-cluster-ip-range=10.0.0.0/16",
    "--authorization-mode=RBAC",
    "--allow-privileged=true",
  ];
}

export function controllerManagerArgs(files: ControlPlaneFiles): string[] {
  return [
    `--service-account-private-key-file=${files.serviceAccountKey}`,
    `--root-ca-file=${files.ca}`,
    "--use-service-account-credentials",
    "--leader-elect=false",
    "--controllers=*,-bootstrapsigner,-tokencleaner",
    // The defaults throttle it during startup, which delays the node by four seconds.
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
    "--secure-port=0",
  ];
}

const kwokArgs = [
  `--config=${join(packageRoot, "dev/parts/kwok-stages.yaml")}`,
  "--manage-all-nodes=true",
  "--node-ip=127.0.0.1",
  "--node-lease-duration-seconds=40",
];

async function createNode(server: string, files: ControlPlaneFiles): Promise<void> {
  const labels = { "kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" };
  await createAsAdmin(server, files, "/api/v1/nodes", {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node-1", labels },
  });
}

/** Creates an object as the administrator. */
export async function createAsAdmin(
  server: string,
  files: ControlPlaneFiles,
  path: string,
  object: object,
): Promise<void> {
  const { status, body } = await call(server, files, "POST", path, object);
  if (status !== 201) throw new Error(`POST ${path}: the API server answered ${status}: ${body}`);
}

/** True if the node is ready and the not-ready taint that every new node gets is gone. */
export async function takesPods(server: string, files: ControlPlaneFiles): Promise<boolean> {
  const { status, body } = await call(server, files, "GET", "/api/v1/nodes/node-1");
  if (status !== 200) return false;
  const node = JSON.parse(body) as {
    spec: { taints?: unknown[] };
    status?: { conditions?: { type: string; status: string }[] };
  };
  const ready = node.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
  return ready && node.spec.taints === undefined;
}

/** Sends one request as the administrator. The Kubernetes client could do this, but takes most of a second to load. */
function call(server: string, files: ControlPlaneFiles, method: string, path: string, content?: object) {
  const { ca, cert, key } = files.admin;
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const headers = content ? { "content-type": "application/json" } : {};
    const req = request(`${server}${path}`, { method, ca, cert, key, headers, agent: false, timeout: 5_000 }, (res) => {
      let body = "";
      res.setEncoding("utf8");
      res.on("data", (chunk: string) => (body += chunk));
      res.on("end", () => resolve({ status: res.statusCode ?? 0, body }));
      res.on("error", reject);
    });
    req.on("timeout", () => req.destroy(new Error(`No answer from ${server}${path}.`)));
    req.on("error", reject);
    req.end(content && JSON.stringify(content));
  });
}
