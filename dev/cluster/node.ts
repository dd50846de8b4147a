/**
 * A node of the cluster: containerd, the kubelet, kube-proxy, and DNS for the pods. It expects to run in namespaces of
 * its own (see space.ts), where it can use addresses, mounts and rules freely.
 */
import { execFile } from "node:child_process";
import { access, mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { stringify } from "yaml";
import {
  controllerManagerArgs,
  controlPlaneTools,
  createAsAdmin,
  startParts,
  takesPods,
} from "../parts/control-plane.ts";
import type { ControlPlaneFiles } from "../parts/control-plane-files.ts";
import type { ToolPaths } from "../tools.ts";
import { archiveOfPause, pauseImage } from "./pause.ts";
import { defineKinds, policyPlugin, policyTools, prepareAgent } from "./policies.ts";

export const nodeTools = [
  ...controlPlaneTools.filter((name) => name !== "kwok"),
  "kubelet",
  "kube-proxy",
  "coredns",
  "containerd",
  "iptables",
  ...policyTools,
] as const;

export interface NodeOptions {
  readonly tools: ToolPaths<(typeof nodeTools)[number]>;
  readonly stateDir: string;
  /** Directory of the CNI plugins, as installed by a package of the distribution or by hand. */
  readonly cniPlugins: string;
}

export interface Node {
  /** Kubeconfig of an administrator. */
  readonly kubeconfig: string;
  /** Imports the one image of an archive (`docker save`) for the kubelet, also under these names. */
  importImage(archive: string, names: readonly string[]): Promise<void>;
  stop(): Promise<void>;
}

/** The node's address, from a range reserved for documentation; pods can reach services that listen on it. */
export const nodeAddress = "192.0.2.1";
const nodeName = "node-1";
const podRange = "10.244.0.0/24";
const podGateway = "10.244.0.1";
/** Addresses reserved for the agent that enforces policies. */
const agentRange = "10.245.0.0/24";
const socket = "/run/containerd/containerd.sock";
const run = promisify(execFile);

/** Resolves when the node accepts pods. */
export async function startNode({ tools, stateDir, cniPlugins }: NodeOptions): Promise<Node> {
  const dir = join(stateDir, "node");
  await mkdir(dir, { recursive: true });
  await connectNetwork(tools.iptables);
  const { server, files, start, stop } = await startParts(tools, stateDir, toApiServerArgs);
  try {
    const [containerd] = await Promise.all([
      start("containerd", tools.containerd, [
        "--config",
        await writeContainerdConfig(dir, await gatherPlugins(dir, cniPlugins, tools["cilium-cni"])),
      ]),
      start("kube-controller-manager", tools["kube-controller-manager"], [
        `--kubeconfig=${files.kubeconfig}`,
        ...controllerManagerArgs(files),
        "--allocate-node-cidrs",
        `--cluster-cidr=${agentRange}`,
        "--node-cidr-mask-size=24",
      ]),
      start("kube-scheduler", tools["kube-scheduler"], [
        `--kubeconfig=${files.kubeconfig}`,
        "--leader-elect=false",
        "--secure-port=0",
      ]),
      start("coredns", tools.coredns, ["-conf", await writeCorefile(dir, files.kubeconfig)]),
      start("kube-proxy", tools["kube-proxy"], [`--config=${await writeProxyConfig(dir, files.kubeconfig)}`]),
    ]);
    const ctr = async (...args: string[]) => {
      const all = ["--address", socket, "--namespace", "k8s.io", ...args];
      return (await run(join(dirname(tools.containerd), "ctr"), all)).stdout;
    };
    await containerd.ready(() => ctr("version").then(() => true));
    const pause = await archiveOfPause(dir);
    await ctr("images", "import", pause);

    const kubelet = await start("kubelet", tools.kubelet, await toKubeletArgs(dir, stateDir, files));
    await kubelet.ready(() => takesPods(server, files), 120_000);
    await defineKinds({ tools }, server, files);
    const agent = await prepareAgent({ tools, dir, nodeName, podRange }, files.kubeconfig);
    const cilium = await start("cilium-agent", agent.command, agent.args, agent.env);
    await cilium.ready(async () => (await fetch("http://127.0.0.1:9879/healthz", { headers: { brief: "true" } })).ok);
    for (const volume of ["volume-1", "volume-2", "volume-3"]) await createVolume(server, files, dir, volume);
    return {
      kubeconfig: files.kubeconfig,
      async importImage(archive, names) {
        const said = await ctr("images", "import", archive);
        const name = /^unpacking (\S+) \(/m.exec(said)?.[1];
        if (name === undefined) throw new Error(`containerd found no image in ${archive}: ${said}`);
        for (const other of names) await ctr("images", "tag", "--force", name, other);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Routes everything to an interface without a network behind it, because addresses of Services need a route to be
 * reachable.
 */
async function connectNetwork(iptables: string): Promise<void> {
  const commands = [
    "link set lo up",
    "link add node0 type bridge",
    `address add ${nodeAddress}/32 dev node0`,
    "link set node0 up",
    "route add default dev node0",
  ];
  for (const command of commands) await run("ip", command.split(" "));
  // Traffic from the node to a pod would have the gateway's address: translate it, so that policies recognize the node.
  const rule = `-s ${podGateway} -d ${podRange} -j SNAT --to-source ${nodeAddress}`;
  await run(iptables, ["-t", "nat", "-A", "POSTROUTING", ...rule.split(" ")]);
}

function toApiServerArgs({ adminCert, adminKey }: ControlPlaneFiles): string[] {
  return [
    "--bind-address=0.0.0.0",
    `--advertise-address=${nodeAddress}`,
    `--kubelet-client-certificate=${adminCert}`,
    `--kubelet-client-key=${adminKey}`,
    "--kubelet-preferred-address-types=InternalIP",
  ];
}

async function writeContainerdConfig(dir: string, cniPlugins: string): Promise<string> {
  const network = join(dir, "cni");
  await mkdir(network, { recursive: true });
  // Each pod has a point-to-point link to the node: its traffic always passes the node's rules, including those of
  // Services.
  const plugins = [
    {
      type: "ptp",
      ipMasq: false,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: podRange }]],
        routes: [{ dst: "0.0.0.0/0" }],
        dataDir: join(dir, "addresses"),
      },
    },
    { type: "portmap", capabilities: { portMappings: true } },
    policyPlugin,
  ];
  await writeFile(join(network, "10-pods.conflist"), JSON.stringify({ cniVersion: "0.4.0", name: "pods", plugins }));
  const path = join(dir, "containerd.toml");
  await writeFile(
    path,
    `version = 2
root = ${JSON.stringify(join(dir, "containerd"))}
state = "/run/containerd"

[grpc]
address = ${JSON.stringify(socket)}

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = ${JSON.stringify(pauseImage)}
restrict_oom_score_adj = true # to lower it takes CAP_SYS_RESOURCE, which a machine may keep from its root

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = ${JSON.stringify(cniPlugins)}
conf_dir = ${JSON.stringify(network)}

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
`,
  );
  return path;
}

/** containerd searches only one directory. */
async function gatherPlugins(dir: string, cniPlugins: string, ...more: readonly string[]): Promise<string> {
  const all = join(dir, "cni-plugins");
  await mkdir(all);
  const paths = [...(await readdir(cniPlugins)).map((name) => join(cniPlugins, name)), ...more];
  for (const path of paths) await symlink(path, join(all, basename(path)));
  return all;
}

async function toKubeletArgs(dir: string, stateDir: string, files: ControlPlaneFiles): Promise<string[]> {
  await writeFile(join(dir, "resolv.conf"), "");
  const config = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address: nodeAddress,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: false },
      x509: { clientCAFile: files.ca },
    },
    authorization: { mode: "AlwaysAllow" },
    containerRuntimeEndpoint: `unix://${socket}`,
    cgroupDriver: "cgroupfs",
    cgroupRoot: await makeControlGroup(basename(stateDir)),
    failSwapOn: false,
    clusterDNS: [nodeAddress],
    clusterDomain: "cluster.local",
    resolvConf: join(dir, "resolv.conf"),
    podLogsDir: join(dir, "pod-logs"),
    // Thresholds low enough not to depend on how full the machine's disk is.
    evictionHard: { "nodefs.available": "1%", "imagefs.available": "1%" },
    imageGCHighThresholdPercent: 100,
    // The defaults are meant for clusters with thousands of nodes.
    kubeAPIQPS: 200,
    kubeAPIBurst: 400,
  };
  const path = join(dir, "kubelet.yaml");
  await writeFile(path, stringify(config));
  return [
    `--config=${path}`,
    `--kubeconfig=${files.kubeconfig}`,
    `--root-dir=${join(dir, "kubelet")}`,
    `--cert-dir=${join(dir, "kubelet-certificates")}`,
    `--hostname-override=${nodeName}`,
    `--node-ip=${nodeAddress}`,
  ];
}

/** Creates the parent of the containers' control groups in every hierarchy; `dev/cluster.ts` removes them. */
async function makeControlGroup(name: string): Promise<string> {
  const root = "/sys/fs/cgroup";
  const isUnified = await access(join(root, "cgroup.controllers")).then(
    () => true,
    () => false,
  );
  const kinds = isUnified ? [""] : (await readdir(root)).filter((kind) => kind !== "unified");
  for (const kind of kinds) await mkdir(join(root, kind, name));
  return `/${name}`;
}

async function writeProxyConfig(dir: string, kubeconfig: string): Promise<string> {
  const config = {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    clientConnection: { kubeconfig },
    hostnameOverride: nodeName,
    mode: "iptables",
    iptables: { syncPeriod: "30s", minSyncPeriod: "100ms" },
    // These are limits of the whole machine, which must not be changed.
    conntrack: { maxPerCore: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
  };
  const path = join(dir, "kube-proxy.yaml");
  await writeFile(path, stringify(config));
  return path;
}

async function writeCorefile(dir: string, kubeconfig: string): Promise<string> {
  const path = join(dir, "Corefile");
  const plugins = ["errors", `kubernetes cluster.local {\nkubeconfig ${kubeconfig}\n}`];
  await writeFile(path, `.:53 {\nbind ${nodeAddress}\n${plugins.join("\n")}\n}\n`);
  return path;
}

/** Creates a volume for claims that name no storage class. */
async function createVolume(server: string, files: ControlPlaneFiles, dir: string, name: string): Promise<void> {
  const path = join(dir, name);
  await mkdir(path);
  const terms = [{ matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [nodeName] }] }];
  await createAsAdmin(server, files, "/api/v1/persistentvolumes", {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: {
      capacity: { storage: "10Gi" },
      accessModes: ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Retain",
      local: { path },
      nodeAffinity: { required: { nodeSelectorTerms: terms } },
    },
  });
}
